package parse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestXML(t *testing.T) {
	for _, c := range []struct{ name, in, want, title string }{
		{"docbook", `<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE book PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "http://example.invalid/docbookx.dtd">
<book><bookinfo><title>The Works</title><author><firstname>Ada</firstname><surname>Lovelace</surname></author></bookinfo>
<!-- not shown --><?pi x?>
<chapter id="c"><title>First <emphasis>notes</emphasis></title>
 <para>Ada &amp; Charles&nbsp;worked<footnote><para>For years.</para></footnote> in <phrase>London</phrase>.</para>
 <sect1><title>Lists</title>
  <itemizedlist><listitem><para>One</para></listitem><listitem><para>Two</para><para>more</para></listitem></itemizedlist>
  <orderedlist><listitem><para>A</para></listitem><listitem><para>B</para></listitem></orderedlist>
  <programlisting>a &lt; b
   c</programlisting>
  <figure><title>A picture</title></figure>
 </sect1></chapter>
 <chapter><title>Second</title><indexterm><primary>x</primary></indexterm><simpara>End.</simpara></chapter></book>`,
			"# The Works\n\nAda\n\nLovelace\n\n## First notes\n\nFor years.\n\nAda & Charles\u00a0worked in London.\n\n### Lists\n\n- One\n- Two\n\nmore\n\n1. A\n2. B\n\n" +
				"```\na < b\n   c\n```\n\nA picture\n\n## Second\n\nEnd.", "The Works"},
		{"jats", `<article xmlns:xlink="x"><front><article-meta><title-group><article-title>On <italic>Graphs</italic></article-title></title-group>
<abstract><p>Short.</p></abstract></article-meta></front><body><sec><label>1</label><title>Intro</title><p>See <xref ref-type="bibr" rid="r1">1</xref> by
<ext-link xlink:href="u">Acme</ext-link>.</p><list list-type="order"><list-item><p>x</p></list-item></list><list><list-item><p>y</p></list-item></list></sec></body>
<back><ref-list><title>References</title><ref id="r1"><mixed-citation><name><surname>Lovelace</surname></name>, <article-title>Notes</article-title>.</mixed-citation></ref></ref-list></back></article>`,
			"# On Graphs\n\nShort.\n\n1\n\n## Intro\n\nSee 1 by Acme.\n\n1. x\n- y\n\n## References\n\nLovelace, Notes.", "On Graphs"},
		{"tables", `<doc><table><title>Staff</title><tgroup cols="2"><colspec/><thead><row><entry>Name</entry><entry>Role</entry></row></thead>
<tbody><row><entry>Ann</entry><entry><para>CEO</para><para>CTO</para></entry></row></tbody></tgroup></table>
<table-wrap><caption><title>More</title></caption><table><tr><th>A</th><th colspan="2">B</th></tr><tr><td>1</td><td>2</td><td>3|4</td></tr></table></table-wrap></doc>`,
			"Staff\n\n| Name | Role |\n|---|---|\n| Ann | CEO \\| CTO |\n\nMore\n\n| A | B |  |\n|---|---|---|\n| 1 | 2 | 3\\|4 |", ""},
		{"data: elements that hold elements only are apart", "<staff><person id='7'><name>Ann</name><role>CEO</role></person><person><name>Bob</name></person></staff>", "Ann\n\nCEO\n\nBob", ""},
		{"elements amid text are part of it", "<doc><item><name>Ann</name> works for <org>Acme</org>.<note>And <b>more</b></note></item></doc>", "Ann works for Acme.And more", ""},
		{"an unknown paragraph inside mixed content", "<body>Before <p>In <x>it</x>.</p> after <table><tr><td>a</td></tr></table> end</body>", "Before\n\nIn it.\n\nafter\n\n|  |\n|---|\n| a |\n\nend", ""},
		{"CDATA, references, breaks, namespaces", "<d:doc xmlns:d='u'><d:p><![CDATA[a <b> & c]]> &#233;&eacute;<d:br/>next</d:p></d:doc>", "a <b> & c éé\nnext", ""},
		{"tei", "<TEI><text><body><div><head>Letter</head><p>To <persName>Ada</persName>,<lb/>dear.</p><list><item>a</item><item>b</item></list></div></body></text></TEI>", "## Letter\n\nTo Ada,\ndear.\n\n- a\n- b", "Letter"},
		{"a row of somebody's own", "<table><row><name>Ann</name><role>CEO</role></row></table>", "|  |  |\n|---|---|\n| Ann | CEO |", ""},
		{"levels end at six", "<a><sec><sec><sec><sec><sec><sec><sec><title>Deep</title></sec></sec></sec></sec></sec></sec></sec></a>", "###### Deep", "Deep"},
		{"what may stand around the root", "<!-- a --><?p?>\n<!DOCTYPE a>\n<a>x</a>\n<!-- b --> <?p?>\n", "x", ""},
		{"what only looks like half a character", "<a><![CDATA[&#xD800;]]> &#xFFFD; \uFFFD &amp;#xD800; &#x1F600;</a>", "&#xD800; \uFFFD \uFFFD &#xD800; \U0001F600", ""},
		{"nothing inside", "\uFEFF<?xml version='1.0'?><a/>", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, XML, c.in)
			require.NoError(t, err)
			require.Equal(t, []Record{{Text: c.want, Title: c.title}}, got)
		})
	}
}

func TestXMLRefuses(t *testing.T) {
	lol := `<?xml version="1.0"?>
<!DOCTYPE lolz [
 <!ENTITY lol "lol">
 <!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
]>
<lolz>&lol2;</lolz>`
	for _, c := range []struct{ name, in, code, message string }{
		{"entity bomb", lol, "xml_entities", "the document type before line 6 declares entities: they are not read"},
		{"external entity", "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<a>&x;</a>", "xml_entities", "the document type before line 2 declares entities: they are not read"},
		{"parameter entity", "<!doctype a [<!entity % x SYSTEM 'http://example.invalid/'> %x;]>\n<a/>", "xml_entities", "the document type before line 2 declares entities: they are not read"},
		{"an entity that nobody declared", "<a>\n&x;</a>", "bad_xml", "line 2: invalid character entity &x;"},
		{"not closed", "<a>\n<b></a>", "bad_xml", "line 2: element <b> closed by </a>"},
		{"cut", "<a>\n<b>", "bad_xml", "line 2: unexpected EOF"},
		{"a control character", "<a>\x01</a>", "bad_xml", "line 1: illegal character code U+0001"},
		{"no XML", "just text", "bad_xml", "there is no element: this is no XML document"},
		{"empty", "", "bad_xml", "there is no element: this is no XML document"},
		{"two roots", "<a>Acme</a>\n<b>Bob</b>", "bad_xml", "line 2: <b> is a second root element: a document has one"},
		{"two documents", "<?xml version='1.0'?><a>Acme</a>\n<?xml version='1.0'?><a>Bob</a>", "bad_xml", "line 2: <a> is a second root element: a document has one"},
		{"two empty roots", "<a/><a/>", "bad_xml", "line 1: <a> is a second root element: a document has one"},
		{"text behind the root", "<a>Acme</a>\nBob", "bad_xml", "line 2: text stands behind the root element"},
		{"text before the root", "Acme\n<a>Bob</a>", "bad_xml", "line 2: text stands before the root element <a>"},
		{"half a character", "<a>\n&#65;&#xD800;</a>", "bad_xml", "line 2: &#xD800; is half a character"},
		{"half a character, decimal", "<a><b>x &#57343; y</b></a>", "bad_xml", "line 1: &#57343; is half a character"},
		{"NUL", "<a>&#0;</a>", "bad_xml", "line 1: illegal character code U+0000"},
		{"too deep", strings.Repeat("<a>\n", 257) + strings.Repeat("</a>", 257), "too_deep", "line 257: elements are nested more than 256 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := all(t, XML, c.in)
			bad(t, err, c.code, c.message)
		})
	}
}

func TestXMLIsLinear(t *testing.T) {
	for _, piece := range []string{"<p/>", "<li>x</li>", "<ul><li/></ul>", "<title>x</title>", "<fn>x</fn>", "<table><row><x/></row></table>", "<a>x</a>", "<?x?>", "<!-- x -->", "&amp;", "<pre> </pre>"} {
		got, err := all(t, XML, "<d>x"+strings.Repeat(piece, 1<<18/len(piece))+"</d>")
		require.NoError(t, err, piece)
		require.LessOrEqual(t, len(got[0].Text), 2<<20, piece)
	}
}
