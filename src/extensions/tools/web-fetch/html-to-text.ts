import { yieldToEventLoop } from '../../../base/clock.ts'

/** The named characters of HTML 4 and XML, each with its code in hexadecimal: `name:code`. */
const ENTITIES =
  'quot:22 amp:26 apos:27 lt:3c gt:3e nbsp:a0 iexcl:a1 cent:a2 pound:a3 curren:a4 yen:a5 ' +
  'brvbar:a6 sect:a7 uml:a8 copy:a9 ordf:aa laquo:ab not:ac shy:ad reg:ae macr:af deg:b0 ' +
  'plusmn:b1 sup2:b2 sup3:b3 acute:b4 micro:b5 para:b6 middot:b7 cedil:b8 sup1:b9 ordm:ba ' +
  'raquo:bb frac14:bc frac12:bd frac34:be iquest:bf Agrave:c0 Aacute:c1 Acirc:c2 Atilde:c3 ' +
  'Auml:c4 Aring:c5 AElig:c6 Ccedil:c7 Egrave:c8 Eacute:c9 Ecirc:ca Euml:cb Igrave:cc Iacute:cd ' +
  'Icirc:ce Iuml:cf ETH:d0 Ntilde:d1 Ograve:d2 Oacute:d3 Ocirc:d4 Otilde:d5 Ouml:d6 times:d7 ' +
  'Oslash:d8 Ugrave:d9 Uacute:da Ucirc:db Uuml:dc Yacute:dd THORN:de szlig:df agrave:e0 ' +
  'aacute:e1 acirc:e2 atilde:e3 auml:e4 aring:e5 aelig:e6 ccedil:e7 egrave:e8 eacute:e9 ' +
  'ecirc:ea euml:eb igrave:ec iacute:ed icirc:ee iuml:ef eth:f0 ntilde:f1 ograve:f2 oacute:f3 ' +
  'ocirc:f4 otilde:f5 ouml:f6 divide:f7 oslash:f8 ugrave:f9 uacute:fa ucirc:fb uuml:fc ' +
  'yacute:fd thorn:fe yuml:ff OElig:152 oelig:153 Scaron:160 scaron:161 Yuml:178 fnof:192 ' +
  'circ:2c6 tilde:2dc Alpha:391 Beta:392 Gamma:393 Delta:394 Epsilon:395 Zeta:396 Eta:397 ' +
  'Theta:398 Iota:399 Kappa:39a Lambda:39b Mu:39c Nu:39d Xi:39e Omicron:39f Pi:3a0 Rho:3a1 ' +
  'Sigma:3a3 Tau:3a4 Upsilon:3a5 Phi:3a6 Chi:3a7 Psi:3a8 Omega:3a9 alpha:3b1 beta:3b2 gamma:3b3 ' +
  'delta:3b4 epsilon:3b5 zeta:3b6 eta:3b7 theta:3b8 iota:3b9 kappa:3ba lambda:3bb mu:3bc nu:3bd ' +
  'xi:3be omicron:3bf pi:3c0 rho:3c1 sigmaf:3c2 sigma:3c3 tau:3c4 upsilon:3c5 phi:3c6 chi:3c7 ' +
  'psi:3c8 omega:3c9 thetasym:3d1 upsih:3d2 piv:3d6 ensp:2002 emsp:2003 thinsp:2009 zwnj:200c ' +
  'zwj:200d lrm:200e rlm:200f ndash:2013 mdash:2014 lsquo:2018 rsquo:2019 sbquo:201a ldquo:201c ' +
  'rdquo:201d bdquo:201e dagger:2020 Dagger:2021 bull:2022 hellip:2026 permil:2030 prime:2032 ' +
  'Prime:2033 lsaquo:2039 rsaquo:203a oline:203e frasl:2044 euro:20ac image:2111 weierp:2118 ' +
  'real:211c trade:2122 alefsym:2135 larr:2190 uarr:2191 rarr:2192 darr:2193 harr:2194 ' +
  'crarr:21b5 lArr:21d0 uArr:21d1 rArr:21d2 dArr:21d3 hArr:21d4 forall:2200 part:2202 ' +
  'exist:2203 empty:2205 nabla:2207 isin:2208 notin:2209 ni:220b prod:220f sum:2211 minus:2212 ' +
  'lowast:2217 radic:221a prop:221d infin:221e ang:2220 and:2227 or:2228 cap:2229 cup:222a ' +
  'int:222b there4:2234 sim:223c cong:2245 asymp:2248 ne:2260 equiv:2261 le:2264 ge:2265 ' +
  'sub:2282 sup:2283 nsub:2284 sube:2286 supe:2287 oplus:2295 otimes:2297 perp:22a5 sdot:22c5 ' +
  'lceil:2308 rceil:2309 lfloor:230a rfloor:230b lang:2329 rang:232a loz:25ca spades:2660 ' +
  'clubs:2663 hearts:2665 diams:2666'

/** Builds a text of lines. Spaces and empty lines in a row become one. */
class TextBuilder {
  readonly #most: number
  readonly #pieces: string[] = []
  #size = 0
  /** How many line ends come before the next text, and whether a space does. */
  #lines = 0
  #hasSpace = false

  constructor(mostCharacters: number) {
    this.#most = mostCharacters
  }

  get isFull(): boolean {
    return this.#size >= this.#most
  }

  /** Adds a text; `isPre` keeps its spaces and lines. */
  add(text: string, isPre: boolean): void {
    if (this.isFull) return
    if (isPre) {
      this.#push(text)
      return
    }
    const words = text.replace(SPACES, ' ')
    if (words === ' ') {
      this.#hasSpace = true
      return
    }
    if (words === '') return
    if (words.startsWith(' ')) this.#hasSpace = true
    this.#push(words.trim())
    this.#hasSpace = words.endsWith(' ')
  }

  /** Adds a mark at the beginning of a line or of a cell. */
  addMark(mark: string): void {
    if (this.isFull) return
    this.#push(mark.trimEnd())
    this.#hasSpace = true
  }

  /** Begins a new line; with 2, after an empty one. */
  break(lines: number): void {
    this.#lines = Math.max(this.#lines, lines)
  }

  toString(): string {
    return this.#pieces.join('').slice(0, this.#most).trim()
  }

  #push(text: string): void {
    const gap =
      this.#pieces.length === 0 ? '' : '\n'.repeat(this.#lines) || (this.#hasSpace ? ' ' : '')
    this.#lines = 0
    this.#hasSpace = false
    this.#pieces.push(gap + text)
    this.#size += gap.length + text.length
  }
}

const SPACES = /[ \t\n\r\f\u00a0]+/g

/** What people read on a page. */
export interface ReadablePage {
  title: string | null
  text: string
}

/** Fewer characters than this are not the content of a page, but what its layout left over. */
const SHORTEST_CONTENT = 200

/**
 * Returns what people read on an HTML page, as lines with marks for headings, lists and links: of
 * its main part if it names one, without navigation. At most `mostCharacters` are kept. Takes time
 * and memory linear in the length, whatever the page holds, and lets other work run in between.
 */
export async function convertHtml(
  html: string,
  baseUrl: string,
  mostCharacters: number,
): Promise<ReadablePage> {
  const reader = await readHtml(html, new HtmlReader(baseUrl, mostCharacters, NAVIGATION))
  const found = pickText(reader)
  if (found.length >= SHORTEST_CONTENT) return { title: reader.title, text: found }
  // An element that is never closed would hide the rest, so everything is read once more.
  const whole = await readHtml(html, new HtmlReader(baseUrl, mostCharacters, []))
  const text = whole.all.toString()
  return { title: whole.title, text: text.length > found.length ? text : found }
}

const pickText = ({ all, main }: HtmlReader): string => {
  const text = main.toString()
  return text.length >= SHORTEST_CONTENT ? text : all.toString()
}

/** So many characters are read before other work may run. */
const STRIDE = 32 * 1024

async function readHtml(html: string, reader: HtmlReader): Promise<HtmlReader> {
  let at = 0
  let pause = STRIDE
  while (at < html.length) {
    at = reader.readNext(html, at)
    if (at < pause) continue
    await yieldToEventLoop()
    pause = at + STRIDE
  }
  return reader
}

const NAVIGATION = ['nav', 'footer']

/** Elements whose content is not for reading. */
const UNREAD = [
  ...['template', 'svg', 'math', 'object', 'canvas', 'video', 'audio', 'select', 'button'],
  ...['dialog', 'datalist', 'map'],
]

/** Elements whose content is text up to their end tag, whatever it looks like. */
const RAW = new Set([
  ...['script', 'style', 'title', 'textarea', 'xmp', 'iframe', 'noembed', 'noframes', 'noscript'],
])

/** Elements that have no content, and so no end. */
const VOID = new Set([
  ...['area', 'base', 'br', 'col', 'embed', 'hr', 'img', 'input', 'link', 'meta', 'source'],
  ...['track', 'wbr'],
])

const BLOCKS = new Set([
  ...['address', 'article', 'aside', 'blockquote', 'body', 'caption', 'center', 'dd', 'details'],
  ...['div', 'dl', 'dt', 'fieldset', 'figcaption', 'figure', 'footer', 'form', 'header', 'hr'],
  ...['legend', 'li', 'main', 'nav', 'ol', 'p', 'pre', 'section', 'summary', 'table', 'tbody'],
  ...['tfoot', 'thead', 'tr', 'ul', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6'],
])

const MAIN = new Set(['main', 'article'])
const LONGEST_LINK = 500

/** Reads a page piece by piece. What is open is counted, so that depth takes no memory. */
class HtmlReader {
  title: string | null = null
  readonly all: TextBuilder
  readonly main: TextBuilder
  readonly #baseUrl: string
  readonly #unread: Set<string>
  /** The element whose content is skipped, and how many of its name are open within. */
  #skipped: { name: string; depth: number } | null = null
  #mainDepth = 0
  #preDepth = 0
  #link: string | null = null

  constructor(baseUrl: string, mostCharacters: number, navigation: string[]) {
    this.#baseUrl = baseUrl
    this.#unread = new Set([...UNREAD, ...navigation])
    this.all = new TextBuilder(mostCharacters)
    this.main = new TextBuilder(mostCharacters)
  }

  /** Reads the text or the tag at `at`. Returns where the next one begins. */
  readNext(html: string, at: number): number {
    const start = html.indexOf('<', at)
    if (start !== at) {
      const end = Math.min(start === -1 ? html.length : start, at + STRIDE)
      this.#addText(html.slice(at, end))
      return end
    }
    const tag = readTag(html, at)
    if (!tag.name) {
      // A bracket that begins no tag is text.
      if (tag.end === at + 1) this.#addText('<')
      return tag.end
    }
    if (tag.isEnd) this.#endElement(tag.name)
    else if (RAW.has(tag.name)) return this.#readRaw(html, tag)
    else this.#beginElement(tag)
    return tag.end
  }

  #readRaw(html: string, { name, end }: Tag): number {
    const [contentEnd, next] = findRawEnd(html, name, end)
    if (name === 'title' && !this.#skipped && this.title === null)
      this.title = decodeEntities(html.slice(end, contentEnd).slice(0, 1_000))
        .replace(/\s+/g, ' ')
        .trim()
    return next
  }

  #beginElement(tag: Tag): void {
    const { name } = tag
    if (this.#skipped) {
      if (name === this.#skipped.name) this.#skipped.depth += 1
      return
    }
    if (!VOID.has(name) && (this.#unread.has(name) || tag.isHidden)) {
      this.#skipped = { name, depth: 1 }
      return
    }
    if (MAIN.has(name)) this.#mainDepth += 1
    if (name === 'pre') this.#preDepth += 1
    if (name === 'a') this.#link = tag.href
    this.#mark(name, tag)
  }

  #mark(name: string, { alt }: Tag): void {
    const heading = /^h([1-6])$/.exec(name)?.[1]
    if (BLOCKS.has(name)) this.#break(heading ? 2 : 1)
    if (heading) this.#addMark(`${'#'.repeat(Number(heading))} `)
    else if (name === 'li') this.#addMark('- ')
    else if (name === 'br') this.#break(1)
    else if (name === 'td' || name === 'th') this.#addCell()
    else if (name === 'img' && alt) this.#addText(`[${alt}]`)
    if (name === 'p') this.#break(2)
  }

  #endElement(name: string): void {
    if (this.#skipped) {
      if (name !== this.#skipped.name) return
      this.#skipped.depth -= 1
      if (this.#skipped.depth === 0) this.#skipped = null
      return
    }
    if (name === 'a') this.#endLink()
    if (BLOCKS.has(name)) this.#break(name === 'p' || /^h[1-6]$/.test(name) ? 2 : 1)
    if (name === 'pre') this.#preDepth = Math.max(0, this.#preDepth - 1)
    if (MAIN.has(name)) this.#mainDepth = Math.max(0, this.#mainDepth - 1)
  }

  #endLink(): void {
    const href = this.#link
    this.#link = null
    if (href === null || href === '' || href.startsWith('#') || this.all.isFull) return
    const url = href.length <= LONGEST_LINK ? URL.parse(href, this.#baseUrl) : null
    if (url?.protocol === 'http:' || url?.protocol === 'https:') this.#addText(` (${url.href})`)
  }

  #break(lines: number): void {
    this.all.break(lines)
    if (this.#mainDepth > 0) this.main.break(lines)
  }

  #addMark(mark: string): void {
    this.all.addMark(mark)
    if (this.#mainDepth > 0) this.main.addMark(mark)
  }

  #addCell(): void {
    this.#addText(' ')
    this.#addMark('| ')
  }

  #addText(raw: string): void {
    if (this.#skipped || (this.all.isFull && this.main.isFull)) return
    const text = decodeEntities(raw)
    const isPre = this.#preDepth > 0
    this.all.add(text, isPre)
    if (this.#mainDepth > 0) this.main.add(text, isPre)
  }
}

/** A tag, with the attributes that a reader of texts needs. */
interface Tag {
  /** In lower case; empty if this is no element's tag. */
  name: string
  isEnd: boolean
  /** Where the tag ends: the place of the next character. */
  end: number
  href: string | null
  alt: string | null
  /** Whether it says that its element is not shown. */
  isHidden: boolean
}

const NOTHING = { name: '', isEnd: false, href: null, alt: null, isHidden: false }

/**
 * Reads what begins with the `<` at `at`: a tag, a comment, a declaration, or a bracket that is text,
 * whose `end` is the next character. What is never closed goes to the end of the text.
 */
function readTag(html: string, at: number): Tag {
  const next = html[at + 1] ?? ''
  if (html.startsWith('<!--', at)) return { ...NOTHING, end: findEnd(html, '-->', at + 2) }
  if (next === '!' || next === '?') return { ...NOTHING, end: findEnd(html, '>', at) }
  const isEnd = next === '/'
  const start = at + (isEnd ? 2 : 1)
  if (!isLetter(html.charCodeAt(start)))
    return { ...NOTHING, end: isEnd ? findEnd(html, '>', at) : at + 1 }
  const nameEnd = findNameEnd(html, start)
  const name = html.slice(start, Math.min(nameEnd, start + LONGEST_NAME)).toLowerCase()
  return readAttributes(html, nameEnd, { ...NOTHING, name, isEnd, end: nameEnd })
}

const LONGEST_NAME = 32

const isLetter = (code: number): boolean =>
  (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a)

function findEnd(html: string, end: string, from: number): number {
  const at = html.indexOf(end, from)
  return at === -1 ? html.length : at + end.length
}

const SPACE = new Set([0x20, 0x09, 0x0a, 0x0c, 0x0d])
const [SLASH, BRACKET, EQUALS] = [0x2f, 0x3e, 0x3d]

function findNameEnd(html: string, from: number): number {
  let at = from
  for (; at < html.length; at++) {
    const code = html.charCodeAt(at)
    if (SPACE.has(code) || code === SLASH || code === BRACKET) break
  }
  return at
}

/** No tag that is meant has more: what follows in it is passed over. */
const MOST_ATTRIBUTES = 1_000

/** Reads attributes up to the bracket that closes the tag, which may stand in a quoted value. */
function readAttributes(html: string, from: number, tag: Tag): Tag {
  let at = from
  let count = 0
  while (at < html.length) {
    const code = html.charCodeAt(at)
    if (code === BRACKET) return Object.assign(tag, { end: at + 1 })
    if (SPACE.has(code) || code === SLASH) at += 1
    else {
      if (count++ === MOST_ATTRIBUTES) return Object.assign(tag, { end: findEnd(html, '>', at) })
      at = readAttribute(html, at, tag)
    }
  }
  return Object.assign(tag, { end: html.length })
}

function readAttribute(html: string, from: number, tag: Tag): number {
  let nameEnd = from + 1
  for (; nameEnd < html.length; nameEnd++) {
    const code = html.charCodeAt(nameEnd)
    if (SPACE.has(code) || code === SLASH || code === BRACKET || code === EQUALS) break
  }
  const name = html.slice(from, Math.min(nameEnd, from + LONGEST_NAME)).toLowerCase()
  let at = skipSpaces(html, nameEnd)
  if (html.charCodeAt(at) !== EQUALS) {
    noteAttribute(tag, name, '')
    // Spaces before something else are read again: at most once.
    return nameEnd
  }
  at = skipSpaces(html, at + 1)
  const quote = html[at]
  const isQuoted = quote === '"' || quote === "'"
  const start = isQuoted ? at + 1 : at
  const end = isQuoted ? findOrEnd(html, quote, start) : findUnquotedEnd(html, start)
  noteAttribute(tag, name, html.slice(start, Math.min(end, start + LONGEST_VALUE)))
  return isQuoted ? end + 1 : end
}

const LONGEST_VALUE = 2_048

function skipSpaces(html: string, from: number): number {
  let at = from
  while (SPACE.has(html.charCodeAt(at))) at += 1
  return at
}

function findOrEnd(html: string, wanted: string, from: number): number {
  const at = html.indexOf(wanted, from)
  return at === -1 ? html.length : at
}

function findUnquotedEnd(html: string, from: number): number {
  let at = from
  for (; at < html.length; at++) {
    const code = html.charCodeAt(at)
    if (SPACE.has(code) || code === BRACKET) break
  }
  return at
}

function noteAttribute(tag: Tag, name: string, value: string): void {
  if (name === 'href') tag.href ??= decodeEntities(value).trim()
  else if (name === 'alt') tag.alt ??= decodeEntities(value).trim()
  else if (name === 'hidden' || (name === 'aria-hidden' && value === 'true')) tag.isHidden = true
  else if (name === 'style' && HIDING.test(value)) tag.isHidden = true
}

const HIDING = /(?:display\s{0,4}:\s{0,4}none|visibility\s{0,4}:\s{0,4}hidden)/i

/**
 * Finds the end of an element whose content is text: where the content ends, and where what follows
 * its end tag begins. Without an end tag both are the end of the text.
 */
function findRawEnd(html: string, name: string, from: number): [end: number, next: number] {
  const tag = END_TAGS.get(name) ?? new RegExp(`</${name}[ \\t\\n\\f\\r/>]`, 'gi')
  END_TAGS.set(name, tag)
  tag.lastIndex = from
  const at = tag.exec(html)?.index ?? -1
  return at === -1 ? [html.length, html.length] : [at, findEnd(html, '>', at + 2 + name.length)]
}

/** The end tags of elements whose content is text: there are few. */
const END_TAGS = new Map<string, RegExp>()

let named: Map<string, string> | undefined

/** Replaces the characters that a text of HTML names: `&amp;`, `&#8364;`, `&#x20ac;`. */
const decodeEntities = (text: string): string =>
  text.includes('&') ? text.replace(ENTITY, decodeEntity) : text

const ENTITY = /&(?:#(?:[xX][0-9a-fA-F]{1,6}|[0-9]{1,7})|[A-Za-z][A-Za-z0-9]{1,9});?/g

function decodeEntity(entity: string): string {
  const name = entity.slice(1).replace(/;$/, '')
  if (name.startsWith('#')) return decodeNumber(name.slice(1))
  named ??= new Map(
    ENTITIES.split(' ').map(pair => {
      const [key = '', code = ''] = pair.split(':')
      return [key, String.fromCodePoint(Number.parseInt(code, 16))]
    }),
  )
  return (entity.endsWith(';') ? named.get(name) : undefined) ?? entity
}

function decodeNumber(digits: string): string {
  const isHex = /^x/i.test(digits)
  const code = Number.parseInt(isHex ? digits.slice(1) : digits, isHex ? 16 : 10)
  const isCharacter = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
  return isCharacter ? String.fromCodePoint(code) : '\uFFFD'
}
