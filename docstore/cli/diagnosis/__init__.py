"""What is wrong with a group, or will be: from what its nodes say of themselves to findings."""
