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

  // Line ends are searched for from the last one on, so that each character is searched once.
  #scan(text: string): Frame[] {
    const frames: Frame[] = []
    let start = this.#skipLineFeed && text[0] === '\n' ? 1 : 0
    if (text.length > 0) this.#skipLineFeed = false
    let feed = text.indexOf('\n', start)
    let carriage = text.indexOf('\r', start)
    while (feed !== -1 || carriage !== -1) {
      const isFeed = carriage === -1 || (feed !== -1 && feed < carriage)
      const lineEnd = isFeed ? feed : carriage
      this.#size += lineEnd - start
      if (this.#size > this.#largest) throw tooLarge()
      const line = this.#line + text.slice(start, lineEnd)
      this.#line = ''
      if (line === '') this.#dispatch(frames)
      else this.#readField(line)
      start = lineEnd + 1
      if (!isFeed && text[start] === '\n') start += 1
      else if (!isFeed && start === text.length) this.#skipLineFeed = true
      if (feed !== -1 && feed < start) feed = text.indexOf('\n', start)
      if (!isFeed) carriage = text.indexOf('\r', start)
    }
    this.#size += text.length - start
    if (this.#size > this.#largest) throw tooLarge()
    this.#line += text.slice(start)
    return frames
  }

  #readField(line: string): void {
    let data: string | null = null
    if (line.startsWith('data:')) data = line.slice(line[5] === ' ' ? 6 : 5)
    else if (line.startsWith('event:')) this.#event = line.slice(line[6] === ' ' ? 7 : 6)
    // A line that is only a name is a field with an empty value (9.2.6).
    else if (line === 'data') data = ''
    else if (line === 'event') this.#event = ''
    if (data === null) return
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
}

const tooLarge = () => new GatewayError('provider_unavailable', 'Provider returned error')
