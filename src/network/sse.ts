import { GatewayError } from '../base/errors.ts'
import type { Frame } from '../translation/protocols/protocol.ts'

/** The most characters of one event, where nothing else is known of it. */
export const LARGEST_EVENT = 4 * 1024 * 1024

/**
 * Splits bytes into server-sent events (WHATWG HTML, 9.2), wherever reads have split them. Linear:
 * no byte is searched twice, and the data lines of an event are collected in a list.
 */
export class SseScanner {
  readonly #decoder = new TextDecoder()
  #line = ''
  /** The data of the event so far; null for none. Almost all events have one line of it. */
  #data: string | null = null
  /** The lines of data after the first. */
  #more: string[] | null = null
  #event: string | null = null
  #size = 0
  #skipLineFeed = false
  readonly #largest: number

  /** `largest` is the most characters of one event: a server that sends more is broken. */
  constructor(largest = LARGEST_EVENT) {
    this.#largest = largest
  }

  /** How many characters of an event are held that is not whole yet. */
  get held(): number {
    return this.#size
  }

  /** Returns the events that these bytes complete. Throws `provider_unavailable` past the most. */
  feed(bytes: Uint8Array): Frame[] {
    return this.#scan(this.#decoder.decode(bytes, { stream: true }))
  }

  /** Returns the event that was still open, as a server may omit the last blank line. */
  end(): Frame[] {
    return this.#scan(`${this.#decoder.decode()}\n\n`)
  }

  #scan(text: string): Frame[] {
    const frames: Frame[] = []
    let start = this.#skipLineFeed && text[0] === '\n' ? 1 : 0
    if (text.length > 0) this.#skipLineFeed = false
    const lineEnds = new LineEnds(text)
    for (
      let lineEnd = lineEnds.findNext(start);
      lineEnd !== -1;
      lineEnd = lineEnds.findNext(start)
    ) {
      this.#endLine(text.slice(start, lineEnd), frames)
      start = lineEnd + 1
      if (text[lineEnd] !== '\r') continue
      if (text[start] === '\n') start += 1
      else if (start === text.length) this.#skipLineFeed = true
    }
    this.#grow(text.length - start)
    this.#line += text.slice(start)
    return frames
  }

  #endLine(rest: string, frames: Frame[]): void {
    this.#grow(rest.length)
    const line = this.#line + rest
    this.#line = ''
    if (line === '') this.#dispatch(frames)
    else this.#readField(line)
  }

  #readField(line: string): void {
    if (line.startsWith('data:')) this.#addData(line.slice(line[5] === ' ' ? 6 : 5))
    else if (line.startsWith('event:')) this.#event = line.slice(line[6] === ' ' ? 7 : 6)
    // A line that is only a name is a field with an empty value (9.2.6).
    else if (line === 'data') this.#addData('')
    else if (line === 'event') this.#event = ''
  }

  #addData(data: string): void {
    if (this.#data === null) this.#data = data
    else if (this.#more === null) this.#more = [data]
    else this.#more.push(data)
  }

  #dispatch(frames: Frame[]): void {
    const [data, more] = [this.#data, this.#more]
    if (data !== null)
      frames.push({ event: this.#event, data: more ? [data, ...more].join('\n') : data })
    this.#data = null
    this.#more = null
    this.#event = null
    this.#size = 0
  }

  #grow(by: number): void {
    this.#size += by
    if (this.#size > this.#largest)
      throw new GatewayError('provider_unavailable', 'Provider returned error')
  }
}

/** Finds line ends in a text. Positions only move forward, so each character is searched once. */
class LineEnds {
  readonly #text: string
  #feed = -2
  #carriage = -2

  constructor(text: string) {
    this.#text = text
  }

  findNext(from: number): number {
    if (this.#feed !== -1 && this.#feed < from) this.#feed = this.#text.indexOf('\n', from)
    if (this.#carriage !== -1 && this.#carriage < from)
      this.#carriage = this.#text.indexOf('\r', from)
    if (this.#carriage === -1) return this.#feed
    return this.#feed === -1 ? this.#carriage : Math.min(this.#feed, this.#carriage)
  }
}
