"""Images of a batch compared with its ids: an image token is in exactly one image."""

import numpy as np
import pytest

from nanotok_ray.loader import Loader, images_in, open_shards
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    made = VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(40))
    return open_shards(str(made.publish()))


@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
@pytest.mark.parametrize("length", [15, 64])
def test_images_are_at_the_positions_of_their_tokens(shards, packing, length):
    image = shards.special_tokens[IMAGE]
    seen = set()
    for batch in Loader(shards, batch_size=3, length=length, packing=packing, epochs=1):
        marked = np.zeros(batch.inputs.shape, dtype=bool)
        images = images_in(shards, batch)
        assert images.tolist() == sorted(images.tolist())
        for row, start, stop, document, number in images.tolist():
            assert not marked[row, start:stop].any()
            marked[row, start:stop] = True
            own = shards.images(document)[number]
            assert stop - start <= own[1] - own[0]
            seen.add((document, number))
        assert np.array_equal(marked, batch.inputs == image)
    if packing == "windows":  # every token is an input; otherwise some are only a last target
        every = {(n, k) for n in range(len(shards)) for k in range(len(shards.images(n)))}
        assert seen == every
