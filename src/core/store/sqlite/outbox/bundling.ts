import type { Seal } from '../../../kernel/seal.ts'
import type { OutboxMessage, WrittenMessages } from '../../../telemetry/outbox.ts'
import type { RecorderEntry } from '../../../telemetry/recorder.ts'
import type { Spool, SpoolPlace } from '../../spool.ts'
import { sealBlock } from './blocks.ts'
import { MOST_CALLS } from './bundles.ts'

/** Messages of calls that are recorded together, for the same receivers. */
export interface Bundle {
  topic: string
  receivers: string[]
  created_at: string
  /** Of the calls, as the other lists. */
  ids: string[]
  /** Empty where the spool has them. */
  payloads: string[]
  /** In bytes. */
  sizes: number[]
  /** Where the messages are in the spool; null where they go into the row. */
  place: SpoolPlace | null
  /** How the record log names it, once it does. */
  json?: string
}

/** A message as one of its bundle. */
export interface BundledMessage {
  bundle: Bundle
  index: number
}

/** What bundling needs. */
export interface BundlingOptions {
  spool: Spool | null
  /** Throws when the secret cannot be read. */
  seal: () => Seal
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: ((id: string, error: unknown) => void) | undefined
}

/** In characters: a bundle gets no further message beyond. */
const MOST_LENGTH = 256 * 1024

const NONE: BundledMessage[] = []
const NOBODY: string[] = []

/** A bundle that is being filled. */
interface OpenBundle extends Bundle {
  isEncrypted: boolean[]
  length: number
}

/** The messages of one batch: bundled, and kept in the spool where there is one. */
export class BundledBatch {
  readonly #options: BundlingOptions
  readonly #bundles: OpenBundle[] = []
  readonly #byName = new Map<string, OpenBundle>()
  /** Most calls of a batch share one list of receivers. */
  readonly #byReceivers = new Map<string[], OpenBundle>()
  readonly #messages: BundledMessage[][]
  /** Where the first block was put. */
  #start: Omit<SpoolPlace, 'length'> | null = null

  /** Throws a TypeError for a message without a call. */
  constructor(batch: RecorderEntry[], options: BundlingOptions) {
    this.#options = options
    this.#messages = batch.map(entry => (entry.outbox?.length ? this.#add(entry) : NONE))
    for (const bundle of this.#bundles) this.#keep(bundle)
  }

  /** Returns the messages of each entry. */
  get messages(): BundledMessage[][] {
    return this.#messages
  }

  /** Lists what receivers have got. */
  listWritten(): WrittenMessages[] {
    return this.#bundles
      .filter(({ receivers, ids }) => receivers.length > 0 && ids.length > 0)
      .map(({ receivers, ids, sizes }) => ({ receivers, count: ids.length, bytes: sum(sizes) }))
  }

  /** Removes from the spool what this batch has put there: it is not recorded. */
  takeBack(): void {
    if (this.#start) this.#options.spool?.takeBack(this.#start)
  }

  #add({ generation, charge, outbox = [] }: RecorderEntry): BundledMessage[] {
    const call = generation ?? charge
    if (!call) throw new TypeError('A message needs a call that it is about')
    return outbox.map(message => {
      const { payload, hasContent = false } = message
      const bundle = this.#chooseBundle(message, call.settled_at)
      bundle.ids.push(call.id)
      bundle.payloads.push(payload)
      bundle.isEncrypted.push(hasContent)
      bundle.length += payload.length
      return { bundle, index: bundle.ids.length - 1 }
    })
  }

  /** A bundle has a line for each message. Nothing takes parts of one without receivers. */
  #chooseBundle({ topic, payload, receivers = NOBODY }: OutboxMessage, at: string): OpenBundle {
    if (receivers.length === 0 || payload.includes('\n')) return this.#begin(topic, receivers, at)
    const known = this.#byReceivers.get(receivers)
    const isKnown = known?.topic === topic
    const name = isKnown ? '' : `${topic}\n${receivers.join('\n')}`
    const open = isKnown ? known : this.#byName.get(name)
    if (open && open.ids.length < MOST_CALLS && open.length + payload.length <= MOST_LENGTH)
      return open
    const begun = this.#begin(topic, receivers, at)
    this.#byReceivers.set(receivers, begun)
    this.#byName.set(isKnown ? `${topic}\n${receivers.join('\n')}` : name, begun)
    return begun
  }

  #begin(topic: string, receivers: string[], created_at: string): OpenBundle {
    const bundle: OpenBundle = {
      ...{ topic, receivers, created_at, place: null, length: 0 },
      ...{ ids: [], payloads: [], sizes: [], isEncrypted: [] },
    }
    this.#bundles.push(bundle)
    return bundle
  }

  #keep(bundle: OpenBundle): void {
    if (this.#spoolBundle(bundle)) return
    this.#encrypt(bundle)
    bundle.sizes = bundle.payloads.map(payload => payload.length)
  }

  /** Returns false where the spool cannot be written: the messages go into the database. */
  #spoolBundle(bundle: OpenBundle): boolean {
    const { spool, seal } = this.#options
    if (!spool?.isWritable || !isSpooled(bundle)) return false
    try {
      const start = spool.findNext()
      const block = sealBlock(seal(), start, bundle)
      spool.append(block)
      this.#start ??= start
      bundle.place = { ...start, length: block.length }
    } catch {
      return false
    }
    bundle.sizes = bundle.payloads.map(payload => Buffer.byteLength(payload))
    bundle.payloads = []
    return true
  }

  /** Encrypts each message that has content by itself. No call fails because that cannot be done. */
  #encrypt(bundle: OpenBundle): void {
    const { seal, onUntold } = this.#options
    for (const [i, id] of bundle.ids.entries()) {
      if (!bundle.isEncrypted[i]) continue
      try {
        bundle.payloads[i] = encryptMessage(seal(), bundle.payloads[i] ?? '', id)
      } catch (error) {
        onUntold?.(id, error)
        bundle.payloads[i] = ''
      }
    }
  }
}

/** Encrypts a message by itself. */
export const encryptMessage = (seal: Seal, payload: string, id: string): string =>
  seal.seal(payload, id, crypto.getRandomValues(new Uint8Array(12)))

const isSpooled = ({ receivers, payloads }: Bundle): boolean =>
  receivers.length > 0 && !payloads[0]?.includes('\n')

const sum = (sizes: number[]): number => sizes.reduce((total, size) => total + size, 0)
