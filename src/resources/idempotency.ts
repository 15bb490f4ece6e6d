import { getIsoTime } from '../base/clock.ts'
import { conflict, GatewayError, unavailable } from '../base/errors.ts'
import { isObject, parseObject, readString } from '../base/json.ts'
import type { Seal } from '../base/seal.ts'
import type { IdentityWorld } from './world.ts'

/** An answer that is given again to the same request. Times in ISO 8601. */
export interface IdempotentAnswer {
  /** Stands for the caller and for the key that they chose for the request. */
  name: string
  /** Stands for the request itself. */
  fingerprint: string
  created_at: string
  /** Null while the first request runs, and after it was interrupted. */
  status: number | null
  /** The answer to a change, sealed; null if it is too large to be kept. The generation of a call. */
  sealed: string | null
}

/** Stores the answers to changes that may be repeated. */
export interface IdempotencyStore {
  /**
   * Inserts a request that begins, and removes those from before a time. Returns the one that has
   * its name already: of simultaneous callers one gets undefined. Where 100,000 are remembered the
   * oldest calls are forgotten for a new one. Throws 503 for it while there are as many changes.
   */
  begin(answer: IdempotentAnswer, before: string): Promise<IdempotentAnswer | undefined>
  finish(name: string, status: number, sealed: string | null): Promise<void>
  /** Finds one by its name. */
  find(name: string): Promise<IdempotentAnswer | undefined>
  /** Removes one that may run again. */
  remove(name: string): Promise<void>
  /** Removes the answers that hold a secret and are from before a time. */
  removeSecrets(before: string): Promise<void>
}

/** The parts of the gateway that repeating changes needs. */
interface IdempotencyWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { idempotency: IdempotencyStore }
  secrets: IdentityWorld['secrets'] & { contentSeal: () => Seal }
}

/** What was answered. */
export interface KeptResponse {
  status: number
  headers: [name: string, value: string][]
  body: string
}

/** In milliseconds: how long an answer is given again. */
export const KEPT_FOR = 86_400_000
/** In milliseconds: how long one that holds a secret is. It is removed within a minute after that. */
const SECRET_KEPT_FOR = 9 * 60_000
/** The largest answer that is kept, in characters. */
const LARGEST = 256 * 1024
/** How many changes and calls are remembered at once. */
export const MOST_REMEMBERED = 100_000
/** What the names of calls begin with. */
export const CALLS = 'call:'
/** What the names of answers that hold a secret begin with: they stand beside their change. */
export const SECRETS = 'secret:'

/**
 * Begins a change under a client's key. Returns the answer to the same request within 24 hours, or
 * null for the first. Throws 409 while the first one runs, or if it was interrupted or its answer
 * cannot be given again, as of one with a secret after ten minutes; and 422 for another request
 * under the same key.
 */
export async function beginChange(
  world: IdempotencyWorld,
  { name, fingerprint }: Pick<IdempotentAnswer, 'name' | 'fingerprint'>,
): Promise<KeptResponse | null> {
  const answer = { name, fingerprint, created_at: getIsoTime(world), status: null, sealed: null }
  const before = computeEnd(world)
  const first = await world.store.idempotency.begin(answer, before)
  if (!first) return null
  checkSameRequest(first.fingerprint, fingerprint)
  if (first.status === null) throw stillRunning()
  const kept = openKept<KeptResponse | MadeSecret>(world, first)
  if (!kept) throw conflict('The change was made, but its answer cannot be given again')
  return 'made' in kept ? openSecret(world, name, kept) : kept
}

/** Instead of an answer that holds a secret: the id of what was made. */
interface MadeSecret {
  made: string
}

const openKept = <Kept>(
  { secrets }: IdempotencyWorld,
  { name, sealed }: Pick<IdempotentAnswer, 'name' | 'sealed'>,
): Kept | null => JSON.parse((sealed && secrets.contentSeal().open(sealed, name)) ?? 'null')

/** Returns an answer that holds a secret. Throws 409 with what was made where it is forgotten. */
async function openSecret(
  world: IdempotencyWorld,
  name: string,
  { made }: MadeSecret,
): Promise<KeptResponse> {
  const answer = await world.store.idempotency.find(SECRETS + name)
  const isFresh = answer !== undefined && answer.created_at > computeSecretEnd(world)
  const kept = isFresh ? openKept<KeptResponse>(world, answer) : null
  if (kept) return kept
  throw conflict(
    `Idempotency-Key: ${made} was made, and its secret is not given again after ten minutes: ` +
      'rotate or delete it before you choose another Idempotency-Key',
  ).with({ metadata: { made } })
}

const computeSecretEnd = ({ clock }: Pick<IdempotencyWorld, 'clock'>): string =>
  new Date(clock.now().getTime() - SECRET_KEPT_FOR).toISOString()

/** Removes the answers that hold a secret and whose time is over. */
export const forgetSecrets = (world: IdempotencyWorld): Promise<void> =>
  world.store.idempotency.removeSecrets(computeSecretEnd(world))

/**
 * Keeps the answer to a change that has ended. One that was not made is forgotten: found out anew it
 * costs nothing, and kept by the thousand it would leave no room for the changes of others.
 */
export async function endChange(
  world: IdempotencyWorld,
  name: string,
  response: KeptResponse,
): Promise<void> {
  const { idempotency } = world.store
  const { status } = response
  if (status >= 400) return idempotency.remove(name)
  const made = findSecretHolder(response)
  // Where there is no room for the answer, a repetition is told what was made.
  if (made !== null) await keepSecret(world, name, response).catch(() => undefined)
  const text = JSON.stringify(made === null ? response : { made })
  const sealed = text.length <= LARGEST ? sealText(world, name, text) : null
  return idempotency.finish(name, status, sealed)
}

async function keepSecret(
  world: IdempotencyWorld,
  change: string,
  response: KeptResponse,
): Promise<void> {
  const name = SECRETS + change
  const sealed = sealText(world, name, JSON.stringify(response))
  const answer = { name, fingerprint: '', created_at: getIsoTime(world), status: null, sealed }
  await world.store.idempotency.begin(answer, computeEnd(world))
}

const computeEnd = ({ clock }: Pick<IdempotencyWorld, 'clock'>): string =>
  new Date(clock.now().getTime() - KEPT_FOR).toISOString()

/** Returns the id of what an answer shows the secret of: a key beside its record. */
function findSecretHolder({ body }: KeptResponse): string | null {
  const { key, data } = parseObject(body) ?? {}
  return typeof key === 'string' && isObject(data) ? readString(data.hash) : null
}

const sealText = ({ secrets, ids }: IdempotencyWorld, name: string, text: string): string =>
  secrets.contentSeal().seal(text, name, Buffer.from(ids.secret(), 'hex').subarray(-12))

/**
 * Begins a call under a client's key: it is on disk with the id of its generation before anything
 * goes out. Throws 409 with that id where a process before this one has begun or made it, and where
 * its answer is not in memory any more; and 422 for another request under the same key.
 */
export async function beginCall(
  world: IdempotencyWorld,
  call: Pick<IdempotentAnswer, 'name' | 'fingerprint'>,
  generation_id: string,
): Promise<MadeCall> {
  const now = world.clock.now().getTime()
  const name = CALLS + call.name
  const answer = {
    ...{ name, fingerprint: call.fingerprint, created_at: new Date(now).toISOString() },
    ...{ status: null, sealed: sealText(world, name, generation_id) },
  }
  const before = new Date(now - KEPT_FOR).toISOString()
  const first = await world.store.idempotency.begin(answer, before)
  if (first) throw refuseRepetition(world, first, call.fingerprint)
  return answer
}

/** A call that is made under a client's key, as it stands in the store. */
type MadeCall = Pick<IdempotentAnswer, 'name' | 'sealed'>

function refuseRepetition(
  { secrets }: IdempotencyWorld,
  { name, fingerprint, status, sealed }: IdempotentAnswer,
  asked: string,
): GatewayError {
  checkSameRequest(fingerprint, asked)
  const generation_id = secrets.contentSeal().open(sealed ?? '', name)
  const how = status === null ? 'was interrupted' : 'was made, and its answer is gone'
  const where =
    generation_id === undefined ? 'the list of generations' : `generation ${generation_id}`
  return conflict(
    `Idempotency-Key: the first call with this key ${how}: ` +
      `look at ${where} before you choose another key`,
  ).with({ metadata: { generation_id } })
}

/** Ends a call under a client's key. Null for the status forgets it: it may be made again. */
export const endCall = (
  { store: { idempotency } }: IdempotencyWorld,
  { name, sealed }: MadeCall,
  status: number | null,
): Promise<void> =>
  status === null ? idempotency.remove(name) : idempotency.finish(name, status, sealed)

/** Throws 503 where so much is remembered that there is no room for more. */
export function checkRemembered(count: number): void {
  if (count >= MOST_REMEMBERED)
    throw unavailable('Too many changes with an Idempotency-Key are remembered')
}

/** Throws 422 for another request than the first under a key. */
export function checkSameRequest(first: string, now: string): void {
  if (first !== now)
    throw new GatewayError(
      'unprocessable',
      'Idempotency-Key: this key was used for another request',
      { metadata: { field: 'idempotency-key' } },
    )
}

/** The error while the first request under a key runs. */
export const stillRunning = () =>
  conflict(
    'Idempotency-Key: the first request with this key still runs, or was interrupted: ' +
      'look whether it was done before you choose another key',
  )
