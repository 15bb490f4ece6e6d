import { repeatWrite, WRITE_PAUSES } from '../../base/clock.ts'
import type { Ids } from '../../base/ids.ts'
import type { Seal } from '../../base/seal.ts'
import type { KeptAnswer, KeptCall, OtherMemory, ToldCall } from './calls.ts'

/** A call under a client’s key, as all servers of a store know it. */
interface StoredCall {
  fingerprint: string
  /** In milliseconds since 1970. */
  begun_at: number
  /** Its answer; null while it runs, and where it was not kept. */
  sealed: string | null
  /** Whether the process that makes it is there. */
  is_running: boolean
}

/** Stores calls under clients’ keys for all servers of a store. */
export interface StoredCalls {
  /** Begins a call. Returns the one that has its name already; null for a new one. */
  begin(call: Pick<ToldCall, 'name' | 'fingerprint'>): Promise<StoredCall | null>
  /** Ends one of this process; an empty text for an answer that is not kept. Null forgets the call. */
  end(name: string, sealed: string | null): Promise<void>
  /** Forgets the oldest ones until all take at most so many bytes. */
  trim(most: number): Promise<void>
}

interface SharedWorld {
  config: { idempotency: { max_mib: number } }
  secrets: { contentSeal: () => Seal }
  ids: Pick<Ids, 'secret'>
}

/** In characters: a longer answer is given again by the server alone that has it. */
const LONGEST = 8 * 1024 * 1024
const MIB = 1024 * 1024

/**
 * Remembers calls under clients’ keys with all servers of a store: one that another server makes, or
 * has made, is not made here. Where its answer is not to be had the call counts as new: what the
 * store knows of it says what has become of it.
 */
export function rememberTogether(world: SharedWorld, calls: StoredCalls): OtherMemory {
  let written = 0
  const most = () => world.config.idempotency.max_mib * MIB
  const write = async (name: string, answer: KeptAnswer | null) => {
    const sealed = answer && sealAnswer(world, name, answer)
    await calls.end(name, sealed)
    written += sealed?.length ?? 0
    // So that not every answer has to make room.
    if (written < most() / 16) return
    written = 0
    await calls.trim(most())
  }
  /** What may be noted as begun, though it was not: the store did not say so in time. */
  const unheard = new Set<string>()
  const forget = async (name: string) => {
    for (const pause of WRITE_PAUSES) {
      await Bun.sleep(pause)
      if (!unheard.has(name)) return
      await calls.end(name, null).catch(() => undefined)
    }
    unheard.delete(name)
  }
  return {
    isNeeded: true,
    async begin({ name, fingerprint }) {
      if (unheard.has(name)) await calls.end(name, null)
      unheard.delete(name)
      const known = await calls.begin({ name, fingerprint }).catch(thrown => {
        unheard.add(name)
        void forget(name)
        throw thrown
      })
      return known && openCall(world, name, known)
    },
    // All servers are told of an end.
    end: (name, answer) => repeatWrite(() => write(name, answer)).catch(() => undefined),
  }
}

function openCall(
  { secrets }: SharedWorld,
  name: string,
  { fingerprint, begun_at: created_at, sealed, is_running }: StoredCall,
): KeptCall | null {
  if (is_running) return { fingerprint, created_at, answer: null }
  const text = sealed === null ? undefined : secrets.contentSeal().open(sealed, name)
  return text === undefined ? null : { fingerprint, created_at, answer: readAnswer(text) }
}

function sealAnswer({ secrets, ids }: SharedWorld, name: string, answer: KeptAnswer): string {
  const { status, headers, pieces } = answer
  const size = pieces.reduce((sum, { length }) => sum + length, 0)
  if (size > LONGEST) return ''
  const text = JSON.stringify({ status, headers, body: Buffer.concat(pieces).toString('base64') })
  return secrets.contentSeal().seal(text, name, Buffer.from(ids.secret(), 'hex').subarray(-12))
}

function readAnswer(text: string): KeptAnswer {
  const { status, headers, body } = JSON.parse(text)
  return { status, headers, pieces: [new Uint8Array(Buffer.from(body, 'base64'))] }
}
