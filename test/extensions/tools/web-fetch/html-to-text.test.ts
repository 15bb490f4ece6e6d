import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { convertHtml } from '../../../../src/extensions/tools/web-fetch/html-to-text.ts'
import { measureBestLoopUse } from '../../../support/event-loop.ts'

const BASE = 'https://example.com/docs/'
const convert = (html: string, most = 100_000) => convertHtml(html, BASE, most)
const textOf = async (html: string) => (await convert(html)).text

describe('what people read', () => {
  test.each<[name: string, html: string, text: string]>([
    ['paragraphs', '<p>One<p>Two</p>Three', 'One\n\nTwo\n\nThree'],
    ['headings', '<h1>A</h1><h3 class=x>B</h3>c', '# A\n\n### B\n\nc'],
    ['lists', '<ul><li>a<li>b</ul>c', '- a\n- b\nc'],
    ['tables', '<table><tr><th>a<th>b<tr><td>1</td><td>2</td></table>', '| a | b\n| 1 | 2'],
    ['spaces', ' a \n\t b<b> c</b>d &nbsp; e', 'a b cd e'],
    ['line breaks', 'a<br>b<br/>c', 'a\nb\nc'],
    ['preformatted text', '<pre>a\n  b</pre>', 'a\n  b'],
    ['links', '<a href="../x?a=1&amp;b=2">go</a>!', 'go (https://example.com/x?a=1&b=2)!'],
    ['links that lead nowhere', '<a href="#top">up</a> <a href="javascript:x()">x</a>', 'up x'],
    ['pictures', '<img src=x alt="A &quot;cat&quot;">', '[A "cat"]'],
    [
      'characters',
      '&lt;b&gt; &amp;amp; &#8364;&#x20AC; &eacute; &nope; &#0;',
      '<b> &amp; €€ é &nope; \uFFFD',
    ],
    ['brackets that are text', '1 < 2 <3 a<', '1 < 2 <3 a<'],
    ['quoted brackets', '<p title="a > b">c</p>', 'c'],
    ['upper case', '<P>a</P><SCRIPT>b</SCRIPT>', 'a'],
    ['comments', 'a<!-- <p>b</p> -->c<!doctype x><?php d ?>e', 'ace'],
  ])('%s', async (_, html, text) => {
    expect(await textOf(html)).toBe(text)
  })

  test.each([
    '<script>if (a < b) "<p>no</p>"</script>',
    '<style>p::after { content: "no" }</style>',
    '<template><p>no</p></template>',
    '<svg><text>no</text></svg>',
    '<div hidden>no<div>no</div>no</div>',
    '<span style="color: red; display : none">no</span>',
    '<p aria-hidden="true">no</p>',
    '<noscript>no</noscript><textarea>no</textarea><select><option>no</select>',
  ])('%s is not read', async html => {
    expect(await textOf(`a${html}b`)).toMatch(/^a\s*b$/)
  })

  test('the title is the first one, in one line', async () => {
    const html = '<title> A\n &amp;  B </title><svg><title>no</title></svg><p>text'
    expect(await convert(html)).toEqual({ title: 'A & B', text: 'text' })
    expect((await convert('<p>text')).title).toBeNull()
  })

  test('the main part is taken without what is around it, if there is enough of it', async () => {
    const long = 'word '.repeat(60).trim()
    const page = (main: string) => `<nav>menu</nav><div>side</div>${main}<footer>foot</footer>`
    expect(await textOf(page(`<main>${long}</main>`))).toBe(long)
    expect(await textOf(page(`<article>${long}</article>`))).toBe(long)
    expect(await textOf(page(`<div>${long}</div>`))).toBe(`side\n${long}`)
    expect(await textOf(page('<main>short</main>'))).toContain('menu')
  })

  test('what is never closed hides nothing that people would see', async () => {
    expect(await textOf('<nav>menu<p>all of the text')).toBe('menu\n\nall of the text')
    expect(await textOf('a<p title="never closed')).toBe('a')
  })

  test('no more is kept than asked for', async () => {
    const { text } = await convert('<p>word</p>'.repeat(1_000), 50)
    expect(text.length).toBeLessThanOrEqual(50)
    expect(text.startsWith('word\n\nword')).toBe(true)
  })
})

describe('hostile pages', () => {
  const pieces = fc.constantFrom(
    ...[
      '<',
      '>',
      '/',
      '!',
      '--',
      '"',
      "'",
      '=',
      ' ',
      '&',
      '#',
      ';',
      'x',
      'a',
      'div',
      'nav',
      'main',
    ],
    ...['<script>', '</script', '<!--', '-->', '<a href=', '<p hidden>', '<title>', '<li>', '😀'],
  )

  test('whatever the page, it is read to its end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 60 }), async parts => {
        const html = parts.join('')
        const { text, title } = await convert(html, 1_000)
        expect(text.length).toBeLessThanOrEqual(1_000)
        expect(typeof title === 'string' || title === null).toBe(true)
        // Text after it is read whatever came before, unless that hides it.
        expect((await convert(`END<br>${html}`)).text.startsWith('END')).toBe(true)
      }),
    )
  })

  // Each would take minutes if the work grew with the square of the length.
  const length = 500_000
  test.each([
    ...['<div>', '<', '<a x=', '<a x  ', '<!--', '<script>', '</scrip', '&', '&a', '&#', '<nav>'],
    ...['<li>', '<h1>', '<a href=/x>y</a>', '<p hidden>', `<a x="'`, '\u00a0 ', '<td>', '</div>'],
  ])('half a megabyte of %s', async piece => {
    const { text } = await convert(piece.repeat(length / piece.length), 10_000)
    expect(text.length).toBeLessThanOrEqual(10_000)
  })

  test('no page holds the event loop for 50 milliseconds', async () => {
    const long: [before: string, piece: string][] = [
      ...[' a', ' a=b', ' href=&amp;', ' style="display:   x"'].map((piece): [string, string] => [
        '<a',
        piece,
      ]),
      ...['</', '</s', '</scrip'].map((piece): [string, string] => ['<script>', piece]),
      ...['<a>', '<td>a', '&amp;', '<pre> a</pre>'].map((piece): [string, string] => ['', piece]),
    ]
    for (const [before, piece] of long) {
      const html = before + piece.repeat((1024 * 1024) / piece.length)
      const { longest } = await measureBestLoopUse(50, () => convert(html))
      expect([before + piece, longest < 50]).toEqual([before + piece, true])
    }
  })
})
