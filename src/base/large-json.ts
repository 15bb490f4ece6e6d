import { yieldToEventLoop } from './clock.ts'
import type { Json } from './json.ts'
import { parseExact } from './json.ts'

/** Texts up to this length are parsed at once: that takes a few milliseconds at most. */
const SMALL = 64 * 1024
/** The deepest nesting, as `parseExact` has it. */
const DEEPEST = 5_000
/**
 * The most objects and arrays. What reads the value later does so in one turn. Honest answers stay
 * below: one of 16,384 tokens with the logprobs of twenty others has 720,000.
 */
const MAX_CONTAINERS = 750_000
/**
 * The most members of one object or list that is longer than a window: where one grows beyond
 * that, moving it stops all others, and so does making parts of an answer from it.
 */
const MAX_MEMBERS = 100_000
const MAX_ITEMS = 64 * 1024
/** Milliseconds after which others have their turn. */
const TURN = 8

/**
 * Parses like `parseExact`, and gives others their turn while it reads a long text. Throws a
 * SyntaxError, also for a text with more objects and arrays than can be handled in one turn later.
 */
export async function parseLargeJson(json: string): Promise<unknown> {
  if (json.length <= SMALL) return parseExact(json)
  const reading = new LargeJsonReader(json).read()
  for (let began = performance.now(); ; ) {
    const step = reading.next()
    if (step.done) return step.value
    if (performance.now() - began < TURN) continue
    await yieldToEventLoop()
    began = performance.now()
  }
}

/** An object or array that is too long to be parsed at once, while its members are read. */
interface Frame {
  container: Json | unknown[]
  /** The name of the member that is being read. */
  name: string
  /** How many members of an object were read. */
  members: number
  /** Whether a member must follow: there was a comma. */
  afterComma: boolean
}

/** What lies between an offset and the end of its container, or of the window. */
interface Scan {
  /** The offset of the container's end; -1 if that is farther away. */
  end: number
  /** The offset of the last comma between members; -1 without one. */
  lastComma: number
  /** How many objects and arrays begin before the end, or before that comma. */
  containers: number
}

/** Reads one text in small steps. Parts of it that are short are parsed by the platform. */
class LargeJsonReader {
  readonly #json: string
  readonly #frames: Frame[] = []
  #at = 0
  #containers = 0
  #result: unknown

  constructor(json: string) {
    this.#json = json
  }

  /** Yields where it may pause. Returns the value. */
  *read(): Generator<void, unknown> {
    yield* this.#readValue()
    while (this.#frames.length > 0) {
      yield
      yield* this.#readMembers(this.#frames.at(-1) as Frame)
    }
    yield* this.#skipBlanks()
    if (this.#at < this.#json.length) throw new SyntaxError('Text after the JSON')
    return this.#result
  }

  /** Reads as many members as fit a window at once, or one that does not. */
  *#readMembers(frame: Frame): Generator<void> {
    const { end, lastComma, containers } = this.#scan(this.#at)
    const close = Array.isArray(frame.container) ? ']' : '}'
    this.#count(containers)
    if (end !== -1) {
      if (this.#json[end] !== close) throw new SyntaxError('Another bracket was open')
      this.#addMembers(frame, end, frame.afterComma)
      yield* this.#closeContainer()
    } else if (lastComma !== -1) {
      this.#addMembers(frame, lastComma, true)
      frame.afterComma = true
    } else yield* this.#readLargeMember(frame)
  }

  #addMembers(frame: Frame, end: number, mustExist: boolean): void {
    const { container } = frame
    const text = this.#json.slice(this.#at, end)
    this.#at = end + 1
    if (mustExist && BLANK.test(text)) throw new SyntaxError('Nothing beside a comma')
    if (Array.isArray(container)) {
      for (const value of parseExact(`[${text}]`) as unknown[]) container.push(value)
      if (container.length > MAX_ITEMS) throw new SyntaxError('The JSON has too long a list')
      return
    }
    const members = parseExact(`{${text}}`) as Json
    const names = Object.keys(members)
    frame.members += names.length
    if (frame.members > MAX_MEMBERS) throw new SyntaxError('The JSON has too many members')
    for (const name of names) addMember(container, name, members[name])
  }

  *#readLargeMember(frame: Frame): Generator<void> {
    yield* this.#skipBlanks()
    if (this.#json[this.#at] === (Array.isArray(frame.container) ? ']' : '}')) {
      if (frame.afterComma) throw new SyntaxError('Nothing after a comma')
      this.#at += 1
      return yield* this.#closeContainer()
    }
    if (!Array.isArray(frame.container)) {
      frame.name = yield* this.#readText()
      yield* this.#skipBlanks()
      this.#expect(':')
    }
    const depth = this.#frames.length
    yield* this.#readValue()
    // A long container is not finished yet: its own end comes before the comma after it.
    if (this.#frames.length === depth) yield* this.#endMember(frame)
  }

  *#closeContainer(): Generator<void> {
    this.#frames.pop()
    const parent = this.#frames.at(-1)
    if (parent) yield* this.#endMember(parent)
  }

  /** Reads what follows a member: a comma, or nothing before the end of the container. */
  *#endMember(frame: Frame): Generator<void> {
    yield* this.#skipBlanks()
    frame.afterComma = this.#json[this.#at] === ','
    if (frame.afterComma) this.#at += 1
    else if (!CLOSING.has(this.#json[this.#at] ?? '')) throw new SyntaxError('Expected a comma')
  }

  *#readValue(): Generator<void> {
    yield* this.#skipBlanks()
    const first = this.#json[this.#at]
    if (first === '"') this.#addValue(yield* this.#readText())
    else if (first === '[' || first === '{') this.#readContainer(first)
    else this.#addValue(this.#readScalar())
  }

  #readContainer(first: string): void {
    const { end, containers } = this.#scan(this.#at + 1)
    this.#count(end === -1 ? 1 : containers + 1)
    if (end === -1) {
      const container = first === '[' ? [] : {}
      this.#addValue(container)
      this.#frames.push({ container, name: '', members: 0, afterComma: false })
      this.#at += 1
    } else {
      this.#addValue(parseExact(this.#json.slice(this.#at, end + 1)))
      this.#at = end + 1
    }
  }

  #readScalar(): unknown {
    SCALAR.lastIndex = this.#at
    const [text = ''] = SCALAR.exec(this.#json) ?? []
    this.#at += text.length
    return parseExact(text)
  }

  /** Reads a string, however long. */
  *#readText(): Generator<void, string> {
    this.#expect('"')
    const pieces: string[] = []
    for (;;) {
      const end = this.#findPieceEnd()
      pieces.push(JSON.parse(`"${this.#json.slice(this.#at, end)}"`))
      this.#at = end
      if (this.#json[end] === '"') break
      yield
    }
    this.#at += 1
    return pieces.join('')
  }

  /** Finds the end of the string, or where it can be cut: never within an escape. */
  #findPieceEnd(): number {
    const limit = Math.min(this.#at + SMALL, this.#json.length)
    let at = this.#at
    while (at < limit) {
      const code = this.#json.charCodeAt(at)
      if (code === QUOTE) return at
      at += code !== BACKSLASH ? 1 : this.#json[at + 1] === 'u' ? 6 : 2
    }
    if (at >= this.#json.length) throw new SyntaxError('A string without an end')
    return at
  }

  *#skipBlanks(): Generator<void> {
    for (let skipped = 0; isBlank(this.#json.charCodeAt(this.#at)); this.#at++)
      if (++skipped % SMALL === 0) yield
  }

  #expect(character: string): void {
    if (this.#json[this.#at] !== character) throw new SyntaxError(`Expected ${character}`)
    this.#at += 1
  }

  /** Looks from an offset inside a container to its end, at most one window far. */
  #scan(from: number): Scan {
    const limit = Math.min(from + SMALL, this.#json.length)
    let depth = 0
    let lastComma = -1
    let end = -1
    let containers = 0
    let all = 0
    let isText = false
    for (let at = from; at < limit; at++) {
      const code = this.#json.charCodeAt(at)
      if (isText) {
        if (code === BACKSLASH) at += 1
        else if (code === QUOTE) isText = false
      } else if (code === QUOTE) isText = true
      else if (code === COMMA && depth === 0) {
        lastComma = at
        containers = all
      } else if (code === OPEN_LIST || code === OPEN_OBJECT) {
        depth += 1
        all += 1
        if (depth + this.#frames.length > DEEPEST) throw new SyntaxError('The JSON nests too deep')
      } else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
        if (depth === 0) end = at
        if (depth === 0) break
        depth -= 1
      }
    }
    return { end, lastComma, containers: end === -1 ? containers : all }
  }

  #count(containers: number): void {
    this.#containers += containers
    if (this.#containers > MAX_CONTAINERS) throw new SyntaxError('The JSON has too many parts')
  }

  #addValue(value: unknown): void {
    const frame = this.#frames.at(-1)
    if (!frame) this.#result = value
    else addMember(frame.container, frame.name, value)
  }
}

// A member may be called `__proto__`, which an assignment would take for something else.
function addMember(container: Json | unknown[], name: string, value: unknown): void {
  if (Array.isArray(container)) container.push(value)
  else if (name !== '__proto__') container[name] = value
  else
    Object.defineProperty(container, name, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
}

const BLANK = /^[ \t\n\r]*$/

/** A number or word, at most as long as one could honestly be. */
const SCALAR = /[^\s,\]}]{0,2000}/y
const CLOSING = new Set([']', '}'])
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
