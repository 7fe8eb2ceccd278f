"""Films by what is in them: a filter, an order, pages that agree while films change, sums."""

import asyncio

from docstore.client import Client, LocalCluster

FILMS = [
    ("Alien", 1979, 8.5, ["horror", "space"]),
    ("Stalker", 1979, 8.1, ["slow"]),
    ("Blade Runner", 1982, 8.1, ["rain"]),
    ("Brazil", 1985, 7.9, ["rain", "paper"]),
    ("Dune", 1984, 6.3, ["space"]),
    ("Solaris", 1972, 8.0, ["space", "slow"]),
]


async def main(cluster: LocalCluster) -> None:
    """Store some films, and ask for them."""
    async with Client(cluster.urls) as store:
        await store.declare("/films")
        for title, year, rating, tags in FILMS:
            about = {"title": title, "year": year, "rating": rating, "tags": tags}
            await store.put(f"/films/{title.lower().replace(' ', '-')}", about)
        good = store.query("/films", filter="rating ge 8", order_by="year desc, title")
        titles = [film["title"] async for film in good]
        print("good ones, the newest first:", titles)
        assert titles == ["Blade Runner", "Alien", "Stalker", "Solaris"]

        seen: list[str] = []
        async for film in store.query("/films", filter="tags/any(t: t eq 'space')", page=1):
            if not seen:
                await store.delete("/films/solaris")  # The query goes on as of its beginning.
            seen.append(film["title"])
        print("in space, when that was asked:", seen)
        assert seen == ["Alien", "Dune", "Solaris"]

        groups = await store.aggregate("/films", "count(*) as films, max(rating)", group_by="year")
        print("by year:", groups)
        assert sum(group["films"] for group in groups) == len(FILMS) - 1


if __name__ == "__main__":
    with LocalCluster(3) as group:
        asyncio.run(main(group))
