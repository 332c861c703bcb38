/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fixture that is named PAGE_FIXTURE: a page on the slow node, the first one of @area, that is
 * shown to readers.  Included once for each fixture.
 */
#define page_fixture(name)	FIXTURE(name)
#define page_setup(name)	FIXTURE_SETUP(name)
#define page_teardown(name)	FIXTURE_TEARDOWN(name)

page_fixture(PAGE_FIXTURE)
{
	struct scene scene;
	char *area;
};

page_setup(PAGE_FIXTURE)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = new_area(PAGE, slow);
	ASSERT_NE(NULL, self->area);
	spot_show(self->scene.crew, 0, self->area);
}

page_teardown(PAGE_FIXTURE)
{
	scene_end(&self->scene);
}

#undef page_fixture
#undef page_setup
#undef page_teardown
#undef PAGE_FIXTURE
