package parse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHTMLCells(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"cells of a nested table", "<table><tr><td>Ann<table><tr><td>works for</td><td>Acme</td></tr><tr><td>Bob</td></tr></table></td><td>e</td></tr></table>",
			"|  |  |\n|---|---|\n| Ann \\| works for \\| Acme \\| Bob | e |"},
		{"without end tags", "<table><tr><td>a<table><tr><td>b<td>c<tr><td>d</table>e<td>f</table>", "|  |  |\n|---|---|\n| a \\| b \\| c \\| d \\| e | f |"},
		{"paragraphs, lists and headings of a cell", "<table><tr><td><p>Ann left</p><p>Bob <b>stayed</b></p></td><td><h3>Head</h3><ul><li>x<li>y</ul></td></tr></table>",
			"|  |  |\n|---|---|\n| Ann left \\| Bob stayed | Head \\| x \\| y |"},
		{"line breaks and inline elements of a cell", "<table><tr><td>12 Main St<br>London <i>E1</i> <a href=x>map</a></td></tr></table>", "|  |\n|---|\n| 12 Main St London E1 map |"},
		{"blank blocks leave no mark", "<table><tr><td><div> </div><div><p>a</p></div> </td><td>\n<p></p></td><td>b</td></tr></table>", "|  |  |  |\n|---|---|---|\n| a |  | b |"},
		{"adjacent cells", "<table><tr><td>a</td><td>b</td></tr></table>", "|  |  |\n|---|---|\n| a | b |"},
		{"a table that only lays out", "<table role=presentation><tr><td><h1>H</h1><p>One.</p></td><td>Two.</td></tr></table>", "# H\n\nOne.\n\nTwo."},
		{"cells outside a table", "<div><td>a</td><td>b</td></div>", "a\n\nb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, HTML, c.in)
			require.NoError(t, err)
			require.Equal(t, c.want, got[0].Text)
		})
	}
}

func TestHTMLFrameAndHidden(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"roles", "<div role=navigation>menu</div><div role='Banner x'>site</div><ul role=menu><li>a</ul><section role=complementary><p>ad</section><div role=contentinfo>c</div><div role=main><p>In</div>", "In"},
		{"header of the page, of the content", "<header><p>Site</header><article><header><h2>Head</h2></header>In</article><main><header role=banner>x</header>More</main>", "## Head\n\nIn\n\nMore"},
		{"hidden by attribute, style, aria", "<p>a</p><div hidden><p>x</div><div style='color:red; DISPLAY : none !important'>x</div><p style=visibility:hidden>x</p><div aria-hidden=true>x</div><p aria-hidden=false>b</p>", "a\n\nb"},
		{"hidden amid a sentence", "<p>Ann <span hidden>x<span>y</span>z</span>works <b style='display:none'>q</b>here.</p>", "Ann works here."},
		{"hidden without end tags", "<ul><li>a<li hidden>x<b>x</b><ul><li>y<li>z</ul><li>b</ul><p hidden>q<p>c", "- a\n- b\n\nc"},
		{"hidden rows and cells", "<table><tr><th>A<th>B<tr hidden><td>x<td>y<tr><td>1<td>2</table>", "| A | B |\n|---|---|\n| 1 | 2 |"},
		{"hidden to the end of its parent", "<div><p hidden>x</div><p>a", "a"},
		{"void elements hide nothing", "<p>a<img hidden>b<input hidden>c<br hidden>d<wbr>e", "abc\nde"},
		{"templates, noscript, dialogs, buttons", "<template><p>x</template><noscript>x</noscript><dialog>x</dialog><dialog open>Shown.</dialog><p>Press <button>OK</button>now.</p>", "Shown.\n\nPress now."},
		{"what stands amid a sentence does not cut it", "<p>Ann<script>x</script> works<svg><title>i</title></svg> for<style>p{}</style> Acme.</p>", "Ann works for Acme."},
		{"links, entities, breaks", "<p>See <a href='http://x'>Acme&nbsp;&amp; Co</a>&#8217;s&shy; page<br/>next&hellip;", "See Acme\u00a0& Co’s\u00ad page\nnext…"},
		{"code", "<p>Run <code>go  test</code>.</p><pre><code>a  b\n\t<b>c</b>\n</code></pre>", "Run go test.\n\n```\na  b\n\tc\n```"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, HTML, c.in)
			require.NoError(t, err)
			require.Equal(t, c.want, got[0].Text)
		})
	}
}
