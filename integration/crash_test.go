package integration

import "testing"

func TestStory(t *testing.T) {
	c := allInOne(t)
	c.tellAll("calm", story...)
	a := c.account("calm")
	for j, s := range a.jobs {
		t.Log(j, s)
	}
	t.Log(a.export)
	for k, v := range a.kept {
		t.Log(k, v)
	}
	c.tellAll("calm2", story...)
	c.account("calm2").same(t, a)
}
