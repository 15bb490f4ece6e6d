import type { TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Lane } from '../../../policy/filters/lane.ts'
import type { Match } from '../../../policy/filters/rule.ts'
import type { Screen } from '../../../policy/filters/screen.ts'

export type ChoicePart = Extract<TextPart, { choice: number }>

/** A text within a part: which stream it continues, and up to where. */
interface Slot {
  lane: Lane
  until: number
  /** Returns the part with these words instead. */
  put(part: ChoicePart, words: string): ChoicePart
}

/** A part that is held back, and the texts in it. */
interface Waiting {
  part: ChoicePart
  slots: Slot[]
  /** Whether more of it is to come. */
  isOpen: boolean
}

/**
 * Filters one choice. Its parts keep their order: a part is held back while a text in it, or in one
 * before it, may still become a match. The arguments of tools are held back until they are
 * complete, so that they are valid JSON again. The parts behind them wait as well.
 */
export class ChoiceFilter {
  readonly #screen: Screen
  readonly #matched: (match: Match) => void
  readonly #lanes = new Map<string, Lane>()
  readonly #inputs = new Map<number, string>()
  #waiting: Waiting[] = []
  #isBlocked = false

  constructor(screen: Screen, matched: (match: Match) => void) {
    this.#screen = screen
    this.#matched = match => {
      this.#isBlocked ||= match.rule.action === 'block'
      matched(match)
    }
  }

  /** Returns what may go out once this part has come. */
  async read(part: ChoicePart): Promise<ChoicePart[]> {
    if (part.type === 'finish') return this.#finish(part)
    if (part.type === 'tool-call-delta') return this.#input(part)
    const shown = await this.#screenedWhole(part)
    if (!this.#isBlocked)
      this.#waiting.push({
        part: this.#screen.alters ? withoutLogprobs(shown) : shown,
        slots: this.#slots(shown),
        isOpen: false,
      })
    return this.#released()
  }

  /** Returns what is left: nothing more will come. */
  async end(): Promise<ChoicePart[]> {
    for (const lane of this.#lanes.values()) lane.end()
    if (!this.#isBlocked) await this.#screenInputs()
    return this.#released()
  }

  async #finish(part: ChoicePart): Promise<ChoicePart[]> {
    const left = await this.end()
    return this.#isBlocked ? left : [...left, part]
  }

  // Nothing is held back if no filter changes anything.
  #released(): ChoicePart[] {
    const out: ChoicePart[] = []
    let gone = 0
    for (const waiting of this.#waiting) {
      if (!this.#goes(waiting, out)) break
      gone += 1
    }
    if (gone > 0) this.#waiting = this.#waiting.slice(gone)
    return out
  }

  /** Releases a part as far as possible; tells whether all of it went out. */
  #goes({ part, slots, isOpen }: Waiting, out: ChoicePart[]): boolean {
    if (!this.#screen.alters) {
      for (const { lane } of slots) lane.take(lane.clear)
      out.push(part)
      return true
    }
    const [first] = slots
    const isClear = !isOpen && slots.every(({ lane, until }) => lane.clear >= until)
    if (isClear) push(out, this.#rewritten(part, slots), slots)
    else if (first && slots.length === 1)
      push(out, first.put(part, first.lane.take(Math.min(first.lane.clear, first.until))), slots)
    return isClear
  }

  #rewritten(part: ChoicePart, slots: Slot[]): ChoicePart {
    const left = slots.reduce(
      (changed, { lane, until, put }) => put(changed, lane.take(until)),
      part,
    )
    return left.type === 'reasoning-delta' && this.#hasOtherThoughts()
      ? withoutSignatures(left)
      : left
  }

  /** Tells whether the reasoning has been changed since it was signed. */
  #hasOtherThoughts(): boolean {
    return [...this.#lanes].some(([name, { changed }]) => changed && name.startsWith('reasoning'))
  }

  #slots(part: ChoicePart): Slot[] {
    switch (part.type) {
      case 'text-delta':
      case 'refusal-delta':
        return [this.#slot(part.type, part.text, withText)]
      case 'reasoning-delta':
        return [
          this.#slot('reasoning', part.text, withText),
          ...part.details.flatMap((detail, at) => this.#detailSlots(detail, at)),
        ]
      case 'audio-delta':
        return part.audio.transcript === undefined
          ? []
          : [this.#slot('audio', part.audio.transcript, withTranscript)]
      default:
        return []
    }
  }

  #detailSlots(detail: ReasoningDetail, at: number): Slot[] {
    return ['text', 'summary'].flatMap(field => {
      const words = detail[field]
      if (typeof words !== 'string') return []
      return [
        this.#slot(`reasoning ${detail.type} ${detail.index} ${field}`, words, (part, left) =>
          withDetail(part, at, field, left),
        ),
      ]
    })
  }

  #slot(name: string, words: string, put: Slot['put']): Slot {
    const lane = this.#lanes.get(name) ?? this.#screen.lane(this.#matched)
    this.#lanes.set(name, lane)
    lane.feed(words)
    return { lane, until: lane.length, put }
  }

  // All arguments of a call go out in the place of their first piece.
  #input(part: Extract<ChoicePart, { type: 'tool-call-delta' }>): ChoicePart[] {
    const known = this.#inputs.get(part.index)
    this.#inputs.set(part.index, (known ?? '') + part.input)
    if (!this.#screen.alters) return [part]
    if (known === undefined) this.#waiting.push({ part, slots: [], isOpen: true })
    return []
  }

  async #screenInputs(): Promise<void> {
    const inputs = new Map<number, string>()
    for (const [index, input] of this.#inputs) inputs.set(index, await this.#screenedJson(input))
    this.#inputs.clear()
    if (!this.#isBlocked)
      this.#waiting = this.#waiting.map(({ part, slots }) => ({
        part: withInput(part, inputs),
        slots,
        isOpen: false,
      }))
  }

  /** Filters the texts of sources and other parts that come whole. */
  async #screenedWhole(part: ChoicePart): Promise<ChoicePart> {
    if (part.type === 'annotation')
      return {
        ...part,
        ...(await this.#screenedValue({ annotation: part.annotation, citation: part.citation })),
      }
    return part.type === 'other'
      ? { ...part, ...(await this.#screenedValue({ value: part.value })) }
      : part
  }

  async #screenedValue<V>(value: V): Promise<V> {
    const json = JSON.stringify(value)
    const left = await this.#screenedJson(json)
    return left === json ? value : JSON.parse(left)
  }

  async #screenedJson(json: string): Promise<string> {
    const { screenedJson } = await import('../../../policy/filters/json-text.ts')
    const { text, matches } = await screenedJson(json, some => this.#screen.find(some))
    for (const match of matches) this.#matched(match)
    return this.#screen.alters ? text : json
  }
}

/**
 * Adds the part unless it is empty: a text that goes out in two pieces leaves one of them empty.
 */
function push(out: ChoicePart[], part: ChoicePart, slots: Slot[]): void {
  const isNothing = slots.length === 1 && 'text' in part && part.text === '' && !('details' in part)
  if (!isNothing) out.push(part)
}

const withText = (part: ChoicePart, text: string): ChoicePart =>
  'text' in part ? { ...part, text } : part

const withTranscript = (part: ChoicePart, transcript: string): ChoicePart =>
  part.type === 'audio-delta' ? { ...part, audio: { ...part.audio, transcript } } : part

const withDetail = (part: ChoicePart, at: number, field: string, words: string): ChoicePart =>
  part.type === 'reasoning-delta'
    ? {
        ...part,
        details: part.details.map((detail, i) =>
          i === at ? { ...detail, [field]: words } : detail,
        ),
      }
    : part

// Log probabilities repeat the words token by token.
function withoutLogprobs(part: ChoicePart): ChoicePart {
  if (!('logprobs' in part)) return part
  const { logprobs: _, ...rest } = part
  return rest
}

// A signature covers the original words: providers refuse it with others.
function withoutSignatures(part: Extract<ChoicePart, { type: 'reasoning-delta' }>): ChoicePart {
  const details = part.details.map(
    ({ signature: _, ...rest }): ReasoningDetail => rest as ReasoningDetail,
  )
  return { ...part, details }
}

const withInput = (part: ChoicePart, inputs: Map<number, string>): ChoicePart =>
  part.type === 'tool-call-delta' ? { ...part, input: inputs.get(part.index) ?? part.input } : part
