import type { Json } from '../../kernel/json.ts'
import { JsonText } from './json-text.ts'
import { signatureOf } from './thinking.ts'

/** What a block gains while it is open. */
export type Delta =
  | { type: 'text_delta'; text: string }
  | { type: 'citations_delta'; citation: Json }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

/** One step in the making of a message's content: what the events of a stream say, and what a whole answer is made of. */
export type Step =
  | { type: 'content_block_start'; index: number; content_block: Json }
  | { type: 'content_block_delta'; index: number; delta: Delta }
  | { type: 'content_block_stop'; index: number }

/** A block on its way. Those that are not open yet keep what they have gained. */
export interface Lane {
  /** Pieces of the same name that follow each other belong together. */
  name: string
  block: Json
  started: boolean
  kept: Delta[]
  /** The arguments of a tool, followed to their end, and what of them is no object. */
  input?: JsonText
  odd?: string
  /** The entry of the reasoning that the words belong to, without the words. */
  thought?: Json
}

/**
 * The blocks of a message, in order. Anthropic's clients know one open block at a time, counted from zero: what comes for another
 * block while a tool's arguments are still incomplete waits for its turn (translation trap 61).
 */
export class Lanes {
  #open: Lane | null = null
  #waiting: Lane[] = []
  #index = -1
  #steps: Step[] = []

  /** The steps that have been taken since this was asked last. */
  taken(): Step[] {
    const steps = this.#steps
    if (steps.length > 0) this.#steps = []
    return steps
  }

  /** The block that the newest piece went to, if it is of this name. */
  last(name: string): Lane | undefined {
    const last = this.#waiting.at(-1) ?? this.#open
    return last?.name === name ? last : undefined
  }

  /** Begins a block, which has gained these already. */
  begin(given: Pick<Lane, 'name' | 'block' | 'thought'>, kept: Delta[] = []): Lane {
    return this.#add({ ...given, started: false, kept })
  }

  /** Begins a block whose input is still to come. */
  beginTool(block: Json): Lane {
    return this.#add({ name: '', block, started: false, kept: [], input: new JsonText() })
  }

  /** Gives a block one more piece. */
  gain(lane: Lane, delta: Delta): void {
    if (lane === this.#open) this.#tell(lane, delta)
    else lane.kept.push(delta)
  }

  /** Gives a tool more of its input. Once that is whole, the next block has its turn. */
  input(lane: Lane, piece: string): void {
    if (!lane.input) return
    const partial_json = lane.input.read(piece)
    if (lane.input.isObject === false) lane.odd = (lane.odd ?? '') + partial_json
    else if (partial_json) this.gain(lane, { type: 'input_json_delta', partial_json })
    if (lane === this.#open && lane.input.complete) this.#close(lane)
    this.#advance()
  }

  /** Closes what is open, and opens and closes what waits: nothing more will come. */
  end(): void {
    while (this.#open) {
      this.#close(this.#open)
      this.#advance()
    }
  }

  #add(lane: Lane): Lane {
    this.#waiting.push(lane)
    this.#advance()
    return lane
  }

  /** Opens what waits, one after the other, until one of them is a tool whose arguments are still coming. */
  #advance(): void {
    let opened = 0
    for (const lane of this.#waiting) {
      if (isBusy(this.#open)) break
      if (this.#open) this.#close(this.#open)
      this.#take(lane)
      opened += 1
    }
    if (opened > 0) this.#waiting = this.#waiting.slice(opened)
  }

  #take(lane: Lane): void {
    this.#open = lane
    // A thought that is hidden and not signed leaves no trace.
    if (!lane.thought) this.#start(lane)
    for (const delta of lane.kept) this.#tell(lane, delta)
  }

  #close(lane: Lane): void {
    if (lane.thought) this.#sign(lane, signatureOf(lane.thought))
    if (lane.odd !== undefined)
      this.#tell(lane, {
        type: 'input_json_delta',
        partial_json: JSON.stringify(oddInput(lane.odd)),
      })
    if (lane.started) this.#steps.push({ type: 'content_block_stop', index: this.#index })
    this.#open = null
  }

  #sign(lane: Lane, signature: string): void {
    if (signature) this.#tell(lane, { type: 'signature_delta', signature })
  }

  #tell(lane: Lane, delta: Delta): void {
    this.#start(lane)
    this.#steps.push({ type: 'content_block_delta', index: this.#index, delta })
  }

  #start(lane: Lane): void {
    if (lane.started) return
    lane.started = true
    this.#index += 1
    this.#steps.push({ type: 'content_block_start', index: this.#index, content_block: lane.block })
  }
}

// Only a tool whose arguments are still coming keeps the others waiting.
const isBusy = (lane: Lane | null): boolean => lane?.input !== undefined && !lane.input.complete

/** Arguments that are no JSON object, in one: the form that Anthropic's documentation gives them. Its clients take nothing else. */
export const oddInput = (raw: string): Json => ({ INVALID_JSON: raw })
