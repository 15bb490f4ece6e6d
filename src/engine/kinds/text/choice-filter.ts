import { runInTurns, type Work } from '../../../base/turns.ts'
import type { TextPart, ToolProgress } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { FilterSet } from '../../../limits/filters/filter-set.ts'
import type { Match } from '../../../limits/filters/rule.ts'
import type { StreamScanner } from '../../../limits/filters/stream-scanner.ts'

type ChoicePart = Extract<TextPart, { choice: number }>

type ProgressPart = Extract<ChoicePart, { type: 'server-tool-progress' }>

/** A text within a part: which stream it continues, and up to where. */
interface Slot {
  scanner: StreamScanner
  until: number
  /** Returns the part with these words instead. */
  replaceWords(part: ChoicePart, words: string): ChoicePart
}

/** A part that is held back, and the texts in it. */
interface PendingPart {
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
  readonly #filterSet: FilterSet
  readonly #onMatch: (match: Match) => void
  readonly #scanners = new Map<string, StreamScanner>()
  readonly #inputs = new Map<number, string>()
  #pending: PendingPart[] = []
  #isBlocked = false

  constructor(filterSet: FilterSet, onMatch: (match: Match) => void) {
    this.#filterSet = filterSet
    this.#onMatch = match => {
      this.#isBlocked ||= match.rule.action === 'block'
      onMatch(match)
    }
  }

  /** Returns what may go out once this part has come. */
  async read(part: ChoicePart): Promise<ChoicePart[]> {
    // A preview may end within a match. The whole piece follows, and is filtered as a whole.
    if (part.type === 'other' && part.isPreview) return []
    if (part.type === 'finish') return this.#finish(await this.#filterFields(part))
    if (part.type === 'tool-call-delta') return this.#addInput(part)
    if (part.type === 'server-tool-end') this.#endProgress(part)
    const filteredPart = await this.#filterFields(await this.#filterWhole(part))
    if (!this.#isBlocked)
      this.#pending.push({
        part: this.#filterSet.alters ? removeLogprobs(filteredPart) : filteredPart,
        slots: await runInTurns(this.#listSlots(filteredPart)),
        isOpen: false,
      })
    return this.#releaseParts()
  }

  /** Returns what is left: nothing more will come. */
  async end(): Promise<ChoicePart[]> {
    for (const lane of this.#scanners.values()) lane.end()
    if (!this.#isBlocked) await this.#filterInputs()
    return this.#releaseParts()
  }

  async #finish(part: ChoicePart): Promise<ChoicePart[]> {
    const filtered = await this.end()
    return this.#isBlocked ? filtered : [...filtered, part]
  }

  // Nothing is held back if no filter changes anything.
  #releaseParts(): ChoicePart[] {
    const out: ChoicePart[] = []
    let gone = 0
    for (const waiting of this.#pending) {
      if (!this.#releasePart(waiting, out)) break
      gone += 1
    }
    if (gone > 0) this.#pending = this.#pending.slice(gone)
    return out
  }

  /** Releases a part as far as possible; tells whether all of it went out. */
  #releasePart({ part, slots, isOpen }: PendingPart, out: ChoicePart[]): boolean {
    if (!this.#filterSet.alters) {
      for (const { scanner } of slots) scanner.take(scanner.decidedUntil)
      out.push(part)
      return true
    }
    const [first] = slots
    const isClear = !isOpen && slots.every(({ scanner, until }) => scanner.decidedUntil >= until)
    if (isClear) pushPart(out, this.#replaceTexts(part, slots), slots)
    else if (first && slots.length === 1)
      pushPart(
        out,
        first.replaceWords(
          part,
          first.scanner.take(Math.min(first.scanner.decidedUntil, first.until)),
        ),
        slots,
      )
    return isClear
  }

  #replaceTexts(part: ChoicePart, slots: Slot[]): ChoicePart {
    const filtered = slots.reduce(
      (changed, { scanner, until, replaceWords }) => replaceWords(changed, scanner.take(until)),
      part,
    )
    return filtered.type === 'reasoning-delta' && this.#hasChangedReasoning()
      ? removeSignatures(filtered)
      : filtered
  }

  /** Tells whether the reasoning has been changed since it was signed. */
  #hasChangedReasoning(): boolean {
    return [...this.#scanners].some(
      ([name, { changed }]) => changed && name.startsWith('reasoning'),
    )
  }

  *#listSlots(part: ChoicePart): Work<Slot[]> {
    switch (part.type) {
      case 'text-delta':
      case 'refusal-delta':
        return [yield* this.#createSlot(part.type, part.text, replaceText)]
      case 'reasoning-delta':
        return [
          yield* this.#createSlot('reasoning', part.text, replaceText),
          ...(yield* this.#listDetailSlots(part.details)),
        ]
      case 'audio-delta':
        return part.audio.transcript === undefined
          ? []
          : [yield* this.#createSlot('audio', part.audio.transcript, replaceTranscript)]
      case 'server-tool-progress':
        return yield* this.#listProgressSlots(part)
      default:
        return []
    }
  }

  *#listProgressSlots({ id, progress }: ProgressPart): Work<Slot[]> {
    if (!isPiece(progress)) return []
    const name = `${nameUse(id)} ${progress.type} ${'model' in progress ? progress.model : ''}`
    return [yield* this.#createSlot(name, progress.text, replaceProgress)]
  }

  // Nothing more comes of what a use was doing: what was held back of it may go.
  #endProgress({ id }: { id: string }): void {
    for (const [name, scanner] of this.#scanners)
      if (name.startsWith(`${nameUse(id)} `)) {
        scanner.end()
        this.#scanners.delete(name)
      }
  }

  *#listDetailSlots(details: ReasoningDetail[]): Work<Slot[]> {
    const slots: Slot[] = []
    for (const [position, detail] of details.entries())
      for (const field of DETAIL_TEXTS) {
        const words = detail[field]
        if (typeof words !== 'string') continue
        const replaceWords: Slot['replaceWords'] = (part, filtered) =>
          replaceDetail(part, position, field, filtered)
        const name = `reasoning ${detail.type} ${detail.index} ${field}`
        slots.push(yield* this.#createSlot(name, words, replaceWords))
      }
    return slots
  }

  *#createSlot(name: string, words: string, replaceWords: Slot['replaceWords']): Work<Slot> {
    const scanner = this.#scanners.get(name) ?? this.#filterSet.createScanner(this.#onMatch)
    this.#scanners.set(name, scanner)
    yield* scanner.read(words)
    return { scanner, until: scanner.length, replaceWords }
  }

  // All arguments of a call go out in the place of their first piece.
  #addInput(part: Extract<ChoicePart, { type: 'tool-call-delta' }>): ChoicePart[] {
    const previous = this.#inputs.get(part.index)
    this.#inputs.set(part.index, (previous ?? '') + part.input)
    if (!this.#filterSet.alters) return [part]
    if (previous === undefined) this.#pending.push({ part, slots: [], isOpen: true })
    return []
  }

  async #filterInputs(): Promise<void> {
    const inputs = new Map<number, string>()
    for (const [index, input] of this.#inputs) inputs.set(index, await this.#filterJson(input))
    this.#inputs.clear()
    if (!this.#isBlocked)
      this.#pending = this.#pending.map(({ part, slots }) => ({
        part: replaceInput(part, inputs),
        slots,
        isOpen: false,
      }))
  }

  /** Filters every string of a part that no scanner follows: names, ids, addresses, opaque data. */
  async #filterFields<P extends ChoicePart>(part: P): Promise<P> {
    if (FOLLOWED.has(part.type)) return part
    const { value, found } = await runInTurns(this.#filterSet.filterUnread(blankFollowed(part)))
    for (const { match } of found) this.#onMatch(match)
    return this.#filterSet.alters ? restoreFollowed(value, part) : part
  }

  /** Filters the texts of sources and other parts that come whole. */
  async #filterWhole(part: ChoicePart): Promise<ChoicePart> {
    if (part.type === 'annotation')
      return {
        ...part,
        ...(await this.#filterValue({
          annotation: part.annotation,
          citation: part.citation,
          source: part.source,
        })),
      }
    return part.type === 'other'
      ? { ...part, ...(await this.#filterValue({ value: part.value })) }
      : part
  }

  async #filterValue<V>(value: V): Promise<V> {
    const json = JSON.stringify(value)
    const filtered = await this.#filterJson(json)
    return filtered === json ? value : JSON.parse(filtered)
  }

  async #filterJson(json: string): Promise<string> {
    const { redactJson } = await import('../../../limits/filters/json-text.ts')
    const { text, matches } = await runInTurns(redactJson(json, this.#filterSet))
    for (const match of matches) this.#onMatch(match)
    return this.#filterSet.alters ? text : json
  }
}

/** Parts of which every string is filtered elsewhere. */
const FOLLOWED = new Set<string>([
  'text-delta',
  'refusal-delta',
  'tool-call-delta',
  'annotation',
  'other',
])

/** Returns the part without the texts that scanners follow, since they may go on in the next. */
function blankFollowed<P extends ChoicePart>(part: P): P {
  if (part.type === 'audio-delta' && part.audio.transcript !== undefined)
    return { ...part, audio: { ...part.audio, transcript: '' } }
  if (part.type === 'server-tool-progress' && isPiece(part.progress))
    return { ...part, progress: { ...part.progress, text: '' } }
  if (part.type !== 'reasoning-delta') return part
  return { ...part, text: '', details: part.details.map(detail => mapTexts(detail, () => '')) }
}

/** Returns the part with the texts that scanners follow as they are in the original. */
function restoreFollowed<P extends ChoicePart>(part: P, original: P): P {
  if (part.type === 'audio-delta' && original.type === 'audio-delta') {
    const { transcript } = original.audio
    return transcript === undefined ? part : { ...part, audio: { ...part.audio, transcript } }
  }
  if (part.type === 'server-tool-progress' && original.type === 'server-tool-progress')
    return isPiece(original.progress)
      ? { ...part, progress: { ...part.progress, text: original.progress.text } as ToolProgress }
      : part
  if (part.type !== 'reasoning-delta' || original.type !== 'reasoning-delta') return part
  const restore = (detail: ReasoningDetail, i: number) =>
    mapTexts(detail, field => original.details[i]?.[field])
  return { ...part, text: original.text, details: part.details.map(restore) }
}

/** The members of a detail that scanners follow. */
const DETAIL_TEXTS = ['text', 'summary']

function mapTexts(detail: ReasoningDetail, replace: (field: string) => unknown): ReasoningDetail {
  const fields = DETAIL_TEXTS.filter(field => typeof detail[field] === 'string')
  return { ...detail, ...Object.fromEntries(fields.map(field => [field, replace(field)])) }
}

/**
 * Adds the part unless it is empty: a text that goes out in two pieces leaves one of them empty.
 */
function pushPart(out: ChoicePart[], part: ChoicePart, slots: Slot[]): void {
  const isNothing = slots.length === 1 && readPiece(part) === ''
  if (!isNothing) out.push(part)
}

const readPiece = (part: ChoicePart): string | null => {
  if (part.type === 'server-tool-progress')
    return 'text' in part.progress ? part.progress.text : null
  return 'text' in part && !('details' in part) ? part.text : null
}

const replaceText = (part: ChoicePart, text: string): ChoicePart =>
  'text' in part ? { ...part, text } : part

const replaceTranscript = (part: ChoicePart, transcript: string): ChoicePart =>
  part.type === 'audio-delta' ? { ...part, audio: { ...part.audio, transcript } } : part

const replaceProgress = (part: ChoicePart, text: string): ChoicePart =>
  part.type === 'server-tool-progress'
    ? { ...part, progress: { ...part.progress, text } as ToolProgress }
    : part

/** Whether this is a piece of a text that goes on. */
const isPiece = (progress: ToolProgress): progress is Extract<ToolProgress, { text: string }> =>
  'text' in progress && progress.type !== 'panel-end'

const nameUse = (id: string) => `use ${JSON.stringify(id)}`

const replaceDetail = (
  part: ChoicePart,
  position: number,
  field: string,
  words: string,
): ChoicePart =>
  part.type === 'reasoning-delta'
    ? {
        ...part,
        details: part.details.map((detail, i) =>
          i === position ? { ...detail, [field]: words } : detail,
        ),
      }
    : part

// Log probabilities repeat the words token by token.
function removeLogprobs(part: ChoicePart): ChoicePart {
  if (!('logprobs' in part)) return part
  const { logprobs: _, ...rest } = part
  return rest
}

// A signature covers the original words: providers refuse it with others.
function removeSignatures(part: Extract<ChoicePart, { type: 'reasoning-delta' }>): ChoicePart {
  const details = part.details.map(
    ({ signature: _, ...rest }): ReasoningDetail => rest as ReasoningDetail,
  )
  return { ...part, details }
}

const replaceInput = (part: ChoicePart, inputs: Map<number, string>): ChoicePart =>
  part.type === 'tool-call-delta' ? { ...part, input: inputs.get(part.index) ?? part.input } : part
