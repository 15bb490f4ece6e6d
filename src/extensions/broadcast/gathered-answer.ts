import type { TextPart } from '../../language/part.ts'
import type { TraceOutput } from '../../observability/destinations/trace.ts'

/** The most characters that are kept of an answer: what is cut here, receivers would cut too. */
const LONGEST = 10_000_000

/** What a client is shown of the first choice of a text answer, without media. */
export class GatheredAnswer {
  #text = ''
  #reasoning = ''
  #calls: { id: string; name: string; input: string }[] = []
  #length = 0

  /** Reads parts as they pass. Parts of other kinds of work have no text. */
  read(parts: TextPart[]): void {
    for (const part of parts) this.#readPart(part)
  }

  /** Returns what was gathered; null for what there was none of. */
  build(): TraceOutput {
    const output: TraceOutput = {
      completion: this.#text === '' ? null : this.#text,
      reasoning: this.#reasoning === '' ? null : this.#reasoning,
    }
    if (this.#calls.length > 0)
      output.toolCalls = this.#calls.map(({ id, name, input }) => ({
        id,
        type: 'function',
        function: { name, arguments: input },
      }))
    return output
  }

  #readPart(part: TextPart): void {
    if (!('choice' in part) || part.choice !== 0) return
    switch (part.type) {
      case 'text-delta':
      case 'refusal-delta':
        this.#text += this.#cut(part.text)
        break
      case 'reasoning-delta':
        this.#reasoning += this.#cut(part.text)
        break
      case 'tool-call-start':
        this.#calls[part.index] = { id: part.id, name: this.#cut(part.name), input: '' }
        break
      case 'tool-call-delta': {
        const call = this.#calls[part.index]
        if (call) call.input += this.#cut(part.input)
      }
    }
  }

  #cut(text: string): string {
    this.#length += text.length
    return this.#length <= LONGEST
      ? text
      : text.slice(0, Math.max(0, LONGEST - this.#length + text.length))
  }
}
