import { GatewayError } from '../errors.ts'
import type { Frame } from '../protocols/protocol.ts'

/** One event may hold this much; a server that sends more without an end to it is broken or hostile. */
const LARGEST_EVENT = 4 * 1024 * 1024

/**
 * Cuts bytes into server-sent events (WHATWG HTML, 9.2), wherever the reads may have cut them. Linear: no byte is looked at
 * twice, and what waits for its line end is a list, not a text that grows.
 */
export class SseScanner {
  readonly #decoder = new TextDecoder()
  #line = ''
  #data: string[] = []
  #event: string | null = null
  #size = 0
  #skipLineFeed = false

  /** The events that these bytes complete. Throws `provider_unavailable` past 4 MiB in one event. */
  feed(bytes: Uint8Array): Frame[] {
    return this.#scan(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The event that was still open: a server may leave out the last blank line. */
  end(): Frame[] {
    return this.#scan(`${this.#decoder.decode()}\n\n`)
  }

  #scan(text: string): Frame[] {
    const frames: Frame[] = []
    let from = this.#skipLineFeed && text[0] === '\n' ? 1 : 0
    if (text.length > 0) this.#skipLineFeed = false
    const ends = new LineEnds(text)
    for (let at = ends.after(from); at !== -1; at = ends.after(from)) {
      this.#endLine(text.slice(from, at), frames)
      from = at + 1
      if (text[at] !== '\r') continue
      if (text[from] === '\n') from += 1
      else if (from === text.length) this.#skipLineFeed = true
    }
    this.#grow(text.length - from)
    this.#line += text.slice(from)
    return frames
  }

  #endLine(rest: string, frames: Frame[]): void {
    this.#grow(rest.length)
    const line = this.#line + rest
    this.#line = ''
    if (line === '') this.#dispatch(frames)
    else this.#field(line)
  }

  #field(line: string): void {
    if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5))
    else if (line.startsWith('event:')) this.#event = line.slice(line[6] === ' ' ? 7 : 6)
    // A name alone is a field whose value is empty (9.2.6).
    else if (line === 'data') this.#data.push('')
    else if (line === 'event') this.#event = ''
  }

  #dispatch(frames: Frame[]): void {
    if (this.#data.length > 0)
      frames.push({
        event: this.#event,
        data: this.#data.length === 1 ? (this.#data[0] ?? '') : this.#data.join('\n'),
      })
    this.#data = []
    this.#event = null
    this.#size = 0
  }

  #grow(by: number): void {
    this.#size += by
    if (this.#size > LARGEST_EVENT)
      throw new GatewayError('provider_unavailable', 'Provider returned error')
  }
}

/** Where lines end in a text, for questions that only move forward: each character is searched once. */
class LineEnds {
  readonly #text: string
  #feed = -2
  #carriage = -2

  constructor(text: string) {
    this.#text = text
  }

  after(from: number): number {
    if (this.#feed !== -1 && this.#feed < from) this.#feed = this.#text.indexOf('\n', from)
    if (this.#carriage !== -1 && this.#carriage < from)
      this.#carriage = this.#text.indexOf('\r', from)
    if (this.#carriage === -1) return this.#feed
    return this.#feed === -1 ? this.#carriage : Math.min(this.#feed, this.#carriage)
  }
}
