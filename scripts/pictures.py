"""Make the pictures of the documentation again, in docs/images."""

from __future__ import annotations

from docs.pictures.drawings import IMAGES, drawings, write


def main() -> None:
    """Draw everything."""
    write(drawings(), IMAGES)


if __name__ == "__main__":
    main()
