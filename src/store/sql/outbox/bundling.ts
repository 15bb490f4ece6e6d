import type { Seal } from '../../../base/seal.ts'
import type { RecorderEntry } from '../../../observability/generations/store.ts'
import type { OutboxMessage, WrittenMessages } from '../../../observability/outbox.ts'
import type { Spool, SpoolPlace } from '../../spool.ts'
import type { BlockWriter } from './blocks.ts'
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
}

/** A message as one of its bundle. */
export interface BundledMessage {
  bundle: Bundle
  index: number
}

/** What bundling needs. */
export interface BundlingOptions {
  spool: Spool | null
  blocks: BlockWriter
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
  /** In characters. */
  length: number
  /** Whether each message is one line. */
  isLined: boolean
}

/** The messages of one batch: bundled, and kept in the spool where there is one. */
export class BundledBatch {
  readonly #options: BundlingOptions
  readonly #bundles: OpenBundle[] = []
  readonly #byName = new Map<string, OpenBundle>()
  /** Most calls of a batch have the same receivers. */
  #last: OpenBundle | null = null
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

  get bundles(): Bundle[] {
    return this.#bundles
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
    const bundled: BundledMessage[] = []
    for (const message of outbox) {
      const bundle = this.#chooseBundle(message, call.settled_at)
      bundled.push({ bundle, index: bundle.ids.length })
      bundle.ids.push(call.id)
      bundle.payloads.push(message.payload)
      bundle.isEncrypted.push(message.hasContent ?? false)
      bundle.length += message.payload.length
    }
    return bundled
  }

  /** A bundle has a line for each message. Nothing takes parts of one without receivers. */
  #chooseBundle({ topic, payload, receivers = NOBODY }: OutboxMessage, at: string): OpenBundle {
    const isLined = receivers.length > 0 && !payload.includes('\n')
    if (!isLined) return this.#begin({ topic, receivers, created_at: at, isLined })
    const open = isSame(this.#last, topic, receivers)
      ? this.#last
      : this.#byName.get(nameBundle(topic, receivers))
    if (open && open.ids.length < MOST_CALLS && open.length + payload.length <= MOST_LENGTH) {
      this.#last = open
      return open
    }
    this.#last = this.#begin({ topic, receivers, created_at: at, isLined })
    this.#byName.set(nameBundle(topic, receivers), this.#last)
    return this.#last
  }

  #begin(of: Pick<OpenBundle, 'topic' | 'receivers' | 'created_at' | 'isLined'>): OpenBundle {
    const { topic, receivers, created_at, isLined } = of
    const bundle: OpenBundle = {
      ...{ topic, receivers, created_at, isLined, place: null, length: 0 },
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
    const { spool, blocks, seal } = this.#options
    if (!spool?.isWritable || !bundle.isLined) return false
    try {
      const start = spool.findNext()
      const { block, sizes } = blocks.seal(seal(), start, bundle)
      spool.append(block)
      this.#start ??= start
      bundle.place = { ...start, length: block.length }
      bundle.sizes = sizes
    } catch {
      return false
    }
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

const nameBundle = (topic: string, receivers: string[]): string =>
  `${topic}\n${receivers.join('\n')}`

const isSame = (bundle: OpenBundle | null, topic: string, receivers: string[]): boolean =>
  bundle !== null &&
  bundle.topic === topic &&
  bundle.receivers.length === receivers.length &&
  receivers.every((id, i) => bundle.receivers[i] === id)

const sum = (sizes: number[]): number => sizes.reduce((total, size) => total + size, 0)
