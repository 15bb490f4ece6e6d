import { yieldToEventLoop } from '../../../base/clock.ts'
import { decodeEntities } from './entities.ts'
import { findRawEnd, readTag, type Tag } from './html-tags.ts'

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
