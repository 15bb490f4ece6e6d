import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError, invalid, notFound } from '../../base/errors.ts'
import { infer } from '../../engine/infer.ts'
import type { Answer } from '../../language/answer.ts'
import type { Kind } from '../../language/work.ts'
import type { BatchResult } from '../../observability/generations/store.ts'
import { type Actor, buildKeyActor } from '../../resources/actor.ts'
import { type Line, readLines, SeenIds } from '../../resources/files/request-lines.ts'
import { createFileId, readStored, Upload } from '../../resources/files.ts'
import { isUsable } from '../../resources/keys/mirror.ts'
import type { Dialect } from '../../translation/dialects/dialect.ts'
import { type BatchRequest, RequestReader } from './requests.ts'
import type { Batch, BatchEnd, BatchProblem } from './store.ts'
import type { BatchWorld } from './world.ts'

/** How many faulty lines a failed batch names. */
const MOST_PROBLEMS = 100

/** How a batch is about to end, and why if it failed. */
interface Ending {
  as: BatchEnd
  problems: BatchProblem[]
}

/**
 * The work on one batch in this process: what is read of its file, and what runs. All that it must
 * not forget is in the store. Workers ask it for one piece of work after the other.
 */
export class BatchJob {
  readonly id: string
  /** Whether nothing is left to do. */
  isOver = false
  /** Steady milliseconds: nothing is done before. */
  pausedUntil = 0
  readonly #world: BatchWorld
  readonly #onFree: () => void
  #lines: AsyncGenerator<Line> | null = null
  /** The lines that have a result, or run, or were put off: until they are passed. */
  #done = new Set<number>()
  /** Lines that run, and lines that were put off. */
  readonly #open = new Set<number>()
  readonly #again: PutOffLine[] = []
  /** The lines that were put off since one was made. */
  readonly #refused = new Set<number>()
  /** Whether some were put off that are not among those: the file is read once more. */
  #isRepeated = false
  /** Whether the last line that was taken was one that had been put off. */
  #wasAgain = false
  /** What came of lines and could not be stored yet, by their numbers. */
  readonly #unkept = new Map<number, LineOutcome>()
  #running = 0
  /** Whether all of it is being looked at: by one worker. */
  #isTaken = false
  #isExhausted = false
  #ending: Ending | null = null
  #reader: RequestReader | null = null

  /** `onFree` is called when one more worker may look for work. */
  constructor(world: BatchWorld, id: string, onFree: () => void) {
    this.id = id
    this.#world = world
    this.#onFree = onFree
  }

  /** How many of its lines run. */
  get running(): number {
    return this.#running
  }

  /** Whether there is something for one more worker to do. */
  canWork(): boolean {
    if (this.isOver || this.#isTaken) return false
    if (this.#ending || (this.#isExhausted && this.#again.length === 0)) return this.#running === 0
    return true
  }

  /** Does one piece of work. Throws for a reason of the gateway's own: then it is tried again. */
  async work(): Promise<void> {
    this.#isTaken = true
    const next = await this.#choose().finally(() => {
      this.#isTaken = false
    })
    if (!next) return
    // Another server may make it by now.
    if (this.#world.jobs?.isHeld === false) return this.#putBack(next.line)
    this.#running += 1
    this.#open.add(next.line.number)
    this.#onFree()
    await this.#runLine(next.batch, next.line).finally(() => {
      this.#running -= 1
    })
  }

  /** Returns the line that runs next; null where something else was done, or nothing is left. */
  async #choose(): Promise<{ batch: Batch; line: Line } | null> {
    for (const [line, outcome] of this.#unkept) await this.#keep(line, outcome)
    const batch = await this.#world.store.batches.find(this.id)
    if (!batch || batch.ended_at !== null) {
      this.isOver = true
      return null
    }
    if (batch.status === 'validating') {
      await this.#validate(batch)
      return null
    }
    this.#ending ??= await this.#findEnding(batch)
    if (this.#ending) {
      if (this.#running === 0) await this.#finish(batch, this.#ending)
      return null
    }
    const line = await this.#takeLine(batch)
    return line && { batch, line }
  }

  /** Looks at every line before the first is made. */
  async #validate(batch: Batch): Promise<void> {
    if (Date.parse(batch.expires_at) <= this.#world.clock.now().getTime())
      return this.#finish(batch, { as: 'expired', problems: [] })
    const { total, problems } = await this.#readAll(batch)
    if (problems.length > 0) return this.#finish(batch, { as: 'failed', problems })
    await this.#world.store.batches.change(batch.id, ['validating'], {
      status: 'in_progress',
      in_progress_at: this.#getTime(),
      total,
    })
  }

  /** Counts the lines and finds what is wrong with them. */
  async #readAll(batch: Batch): Promise<{ total: number; problems: BatchProblem[] }> {
    const problems: BatchProblem[] = []
    const seen = new SeenIds()
    try {
      for await (const line of this.#openLines(batch)) {
        if (problems.length === MOST_PROBLEMS) break
        const problem = await this.#checkLine(batch, line, seen)
        if (problem) problems.push(problem)
        this.#checkCount(seen.size)
      }
      if (seen.size === 0 && problems.length === 0) throw invalid('input_file_id: it has no lines')
    } catch (thrown) {
      problems.push(toProblem(thrown))
    }
    return { total: seen.size, problems }
  }

  async #checkLine(batch: Batch, line: Line, seen: SeenIds): Promise<BatchProblem | null> {
    try {
      const { custom_id } = await this.#getReader(batch).read(line)
      seen.add(custom_id, line.number)
      return null
    } catch (thrown) {
      return toProblem(thrown)
    }
  }

  #checkCount(count: number): void {
    const most = this.#world.config.batches.max_requests
    if (count > most)
      throw invalid(`input_file_id: expected at most ${most} lines (batches.max_requests)`)
  }

  /** Returns how the batch ends now; null if it goes on. */
  async #findEnding(batch: Batch): Promise<Ending | null> {
    const { store, clock } = this.#world
    if (batch.ends_as) return { as: batch.ends_as, problems: batch.errors }
    if (batch.status === 'cancelling') return { as: 'cancelled', problems: [] }
    if (Date.parse(batch.expires_at) <= clock.now().getTime())
      return { as: 'expired', problems: [] }
    if (!(await this.#hasActor(batch))) return buildFailure('key_not_usable', KEY_GONE)
    if (this.#isExhausted && this.#again.length === 0) return { as: 'completed', problems: [] }
    const file = await store.files.find(batch.input_file_id)
    return file ? null : buildFailure('file_deleted', FILE_GONE)
  }

  #findActor({ key_hash }: Batch): Actor | null {
    const key = this.#world.memory.keys.get(key_hash)
    const isGood = key && isUsable(key, this.#world.clock.now())
    return isGood ? buildKeyActor(this.#world, key) : null
  }

  /** Whether its key is usable. Another server may have made that a moment ago. */
  async #hasActor(batch: Batch): Promise<boolean> {
    if (this.#findActor(batch)) return true
    await this.#world.catchUp()
    return this.#findActor(batch) !== null
  }

  /** Returns the next line that has no result; null if none is left. */
  async #takeLine(batch: Batch): Promise<Line | null> {
    const again = this.#takeAgain()
    if (again) return again
    try {
      this.#lines ??= await this.#startLines(batch)
      for (;;) {
        const { value: line, done } = await this.#lines.next()
        if (done) break
        if (this.#done.delete(line.number)) continue
        if (!(await this.#keepPaid(batch, line))) return line
      }
    } catch (thrown) {
      // It is read again from its beginning.
      this.#lines = null
      // What is lost or damaged comes back by nothing that the gateway could do.
      if (!isDamaged(thrown)) throw thrown
      this.#ending = buildFailure('file_damaged', thrown.message)
      return null
    }
    return this.#endLines()
  }

  /** Takes a line that was put off, if it is due. In turns with new ones, of which some may be made. */
  #takeAgain(): Line | null {
    const now = this.#world.clock.ticks()
    const isTurn = this.#isExhausted || !this.#wasAgain
    const at = isTurn ? this.#again.findIndex(({ due }) => due <= now) : -1
    const [again] = at === -1 ? [] : this.#again.splice(at, 1)
    this.#wasAgain = again !== undefined
    return again?.line ?? null
  }

  /** No new line is left: what was put off is waited for. */
  #endLines(): Line | null {
    const now = this.#world.clock.ticks()
    this.#isExhausted = !this.#isRepeated
    if (this.#isRepeated) this.#lines = null
    const dues = this.#again.map(({ due }) => due)
    if (this.#isRepeated) dues.push(now + RETRY_AFTER)
    this.#isRepeated = false
    if (dues.length > 0) this.pausedUntil = Math.max(this.pausedUntil, Math.min(...dues))
    return null
  }

  /** Tries a line again at once: nothing speaks against it. */
  #putBack(line: Line): void {
    this.#again.push({ line, due: 0 })
  }

  /**
   * Puts a line off. The others go on: it may be its model's provider alone that has too much. Where
   * none of several can be made, all of them wait.
   */
  #putOff(line: Line, after: number): void {
    const due = this.#world.clock.ticks() + after
    if (this.#again.length < MOST_PUT_OFF) this.#again.push({ line, due })
    else {
      this.#isRepeated = true
      this.#isExhausted = false
      this.#open.delete(line.number)
    }
    this.#refused.add(line.number)
    if (this.#refused.size < MOST_REFUSED) return
    this.#refused.clear()
    this.pausedUntil = Math.max(this.pausedUntil, due)
  }

  async #startLines(batch: Batch): Promise<AsyncGenerator<Line>> {
    // What its lines name, as a preset, may be new too.
    await this.#world.catchUp()
    const done = await this.#world.store.batches.listDoneLines(batch.id)
    this.#done = new Set([...done, ...this.#open])
    return this.#openLines(batch)
  }

  /** Notes a line that a killed process has paid for. Returns whether it is one. */
  async #keepPaid(batch: Batch, line: Line): Promise<boolean> {
    if (!(await isPaid(this.#world, batch.id, line.number))) return false
    const { custom_id } = await this.#getReader(batch).read(line)
    const id = this.#world.ids.generation(this.#world.clock.now())
    const outcome = buildUnanswered(id, custom_id, 'interrupted', INTERRUPTED)
    await this.#addResult(line.number, outcome)
    return true
  }

  async #runLine(batch: Batch, line: Line): Promise<void> {
    const world = this.#world
    const reader = this.#getReader(batch)
    const request = await reader.read(line)
    const actor = this.#findActor(batch)
    if (!actor) return this.#putBack(line)
    const outcome = await runLine(world, { batch, dialect: reader.dialect, actor, request })
    if ('after' in outcome) return this.#putOff(line, outcome.after)
    this.#refused.clear()
    this.#unkept.set(line.number, outcome)
    await this.#keep(line.number, outcome)
  }

  async #keep(line: number, outcome: LineOutcome): Promise<void> {
    if (!outcome.isOnRecord) await this.#addResult(line, outcome)
    this.#unkept.delete(line)
    this.#open.delete(line)
  }

  #addResult(line: number, outcome: LineOutcome): Promise<void> {
    const result = sealOutcome(this.#world, this.id, line, outcome)
    return this.#world.store.batches.addResult(result)
  }

  /** Writes the files and ends the batch. Killed in the middle, it goes on where it was. */
  async #finish(found: Batch, { as, problems }: Ending): Promise<void> {
    const batch = await this.#startFinish(found, as, problems)
    if (!batch) return
    const output_file_id = await writeResults(this.#world, batch, {
      id: batch.output_file_id,
      name: 'output',
    })
    const error_file_id = await writeResults(this.#world, batch, {
      id: batch.error_file_id,
      name: 'error',
      ...(as === 'completed' ? {} : { others: this.#readUnanswered(batch, as) }),
    })
    const change = { status: as, ended_at: this.#getTime(), output_file_id, error_file_id }
    await this.#world.store.batches.change(batch.id, ['finalizing', 'cancelling'], change)
    const ended = await this.#world.store.batches.find(batch.id)
    if (ended) this.#world.events.publish('batch.ended', ended)
    this.isOver = true
  }

  /** Writes down how the batch ends, so that no line begins any more. */
  async #startFinish(batch: Batch, as: BatchEnd, problems: BatchProblem[]): Promise<Batch | null> {
    if (batch.ends_as) return batch
    const { batches } = this.#world.store
    const files = batch.status === 'validating' ? {} : reserveFiles(this.#world)
    const status = batch.status === 'cancelling' ? 'cancelling' : 'finalizing'
    // One that is cancelled before it was looked at names its requests all the same.
    const count = as === 'cancelled' && batch.total === 0 ? await this.#countReadable(batch) : {}
    const change = { status, ends_as: as, errors: problems, ...files, ...count } as const
    await batches.change(batch.id, [batch.status], { ...change, finalizing_at: this.#getTime() })
    // It may have been cancelled at the same moment: then it ends as that, at the next turn.
    const now = await batches.find(batch.id)
    this.#ending = null
    return now?.ends_as ? now : null
  }

  async #countReadable(batch: Batch): Promise<{ total?: number }> {
    const { total, problems } = await this.#readAll(batch)
    return problems.length === 0 ? { total } : {}
  }

  /** Renders the lines that were not made. Their file may be gone: then nothing is known of them. */
  async *#readUnanswered(batch: Batch, as: BatchEnd): AsyncGenerator<string> {
    // What was not looked at may not be readable.
    if (batch.total === 0) return
    const done = new Set(await this.#world.store.batches.listDoneLines(batch.id))
    const reader = this.#getReader(batch)
    if (!(await this.#world.store.files.find(batch.input_file_id))) return
    try {
      for await (const line of this.#openLines(batch)) {
        if (done.has(line.number)) continue
        const { custom_id } = await reader.read(line)
        const id = this.#world.ids.generation(this.#world.clock.now())
        yield buildUnanswered(id, custom_id, `batch_${as}`, UNANSWERED).text
      }
    } catch (thrown) {
      if (!isDamaged(thrown)) throw thrown
    }
  }

  async *#openLines({ input_file_id }: Batch): AsyncGenerator<Line> {
    const file = await this.#world.store.files.find(input_file_id)
    if (!file) throw notFound(`input_file_id: ${FILE_GONE}`)
    const pieces = await readStored(this.#world, file)
    let bytes = 0
    for await (const line of readLines(pieces)) {
      bytes += line.bytes.length
      if (bytes > READ_AT_ONCE) {
        bytes = 0
        await yieldToEventLoop()
      }
      yield line
    }
  }

  #getReader({ endpoint }: Batch): RequestReader {
    this.#reader ??= new RequestReader(endpoint)
    return this.#reader
  }

  #getTime = (): string => this.#world.clock.now().toISOString()
}

/** A line that is tried again. */
interface PutOffLine {
  line: Line
  /** In steady milliseconds: not before. */
  due: number
}

/** How many of them are held in memory. */
const MOST_PUT_OFF = 64

/** So many lines in a row that cannot be made pause their batch. */
const MOST_REFUSED = 8

/** In bytes: after so much of a file, others get their turn. */
const READ_AT_ONCE = 64 * 1024

const KEY_GONE = 'The key of the batch is deleted, disabled or expired'
const FILE_GONE = 'The file of the requests was deleted'
const INTERRUPTED =
  'The gateway was stopped while this request ran. It is charged, and so not made again.'
const UNANSWERED = 'The batch ended before this request was made'

/** Whether this says that the file of the requests is not there as it was stored. */
const isDamaged = (thrown: unknown): thrown is GatewayError =>
  thrown instanceof GatewayError && thrown.type === 'not_found'

const buildFailure = (code: string, message: string): Ending => ({
  as: 'failed',
  problems: [{ code, message, param: null, line: null }],
})

function toProblem(thrown: unknown): BatchProblem {
  if (!(thrown instanceof GatewayError)) throw thrown
  const { type, message, metadata } = thrown
  const { field, line } = metadata
  return {
    code: type,
    message,
    param: typeof field === 'string' ? field : null,
    line: typeof line === 'number' ? line : null,
  }
}

/** A line that can be tried again: nothing was paid for it. */
interface PutOff {
  /** In milliseconds: after which it makes sense. */
  after: number
}

/** One line of a batch that is about to run. */
interface RunningLine {
  batch: Batch
  dialect: Dialect
  actor: Actor
  request: BatchRequest
}

/** In milliseconds: when a line is tried again after a refusal that says no time, and the longest. */
const RETRY_AFTER = 5_000
const LONGEST_WAIT = 60_000

/** The id of a line's request: that of its batch, and its number. */
const buildRequestId = (batch_id: string, line: number): string => `${batch_id}-${line}`

/**
 * Runs a line as an ordinary call and returns what came of it, or that it was put off: a rate limit
 * is reached, or the gateway takes no calls now. Never throws.
 */
export async function runLine(
  world: BatchWorld,
  running: RunningLine,
): Promise<LineOutcome | PutOff> {
  const id = world.ids.generation(world.clock.now())
  try {
    return await callOnce(world, running, id)
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    const isLater = error.status === 429 || error.type === 'unavailable'
    if (isLater && !(await isPaid(world, running.batch.id, running.request.line)))
      return { after: Math.min(LONGEST_WAIT, (error.retryAfter ?? 0) * 1_000 || RETRY_AFTER) }
    return buildRefused(id, running, error)
  }
}

/** Makes the call. Its answer is written in the transaction of its record: who pays for it has it. */
async function callOnce(
  world: BatchWorld,
  { batch, dialect, actor, request }: RunningLine,
  id: string,
): Promise<LineOutcome> {
  const request_id = buildRequestId(batch.id, request.line)
  const origin = { request_id, http_referer: null, title: null, user_agent: null }
  const context = {
    id,
    origin: { ...origin, region: 'global' as const, traceContext: null, batch_id: batch.id },
    session_id: null,
    betas: [],
  }
  const call = dialect.toCall(world, actor, request.body, context)
  const collect = async (answer: Answer<Kind>) =>
    buildAnswered(id, request, await dialect.collectResponse(answer, call, request.body))
  let kept = null as LineOutcome | null
  const { signal } = new AbortController()
  const answer = await infer(world, actor, dialect.kind, call, signal, async whole => {
    try {
      kept = await collect(whole)
      return sealOutcome(world, batch.id, request.line, kept)
    } catch {
      return null
    }
  })
  return kept ? { ...kept, isOnRecord: await endsWell(answer) } : collect(answer)
}

/** Whether an answer that is whole was recorded: otherwise its last parts say why not. */
async function endsWell({ parts }: Answer<Kind>): Promise<boolean> {
  const end = (await parts.collect()).at(-1) ?? []
  return end.every(({ type }) => type !== 'error')
}

/**
 * Whether a line was paid: a call of it is on record that cost something. Such a line is never made
 * again.
 */
async function isPaid(world: BatchWorld, batch_id: string, line: number): Promise<boolean> {
  const id = buildRequestId(batch_id, line)
  const calls = await world.store.generations.list({ id, batch_id }, MOST_TRIES)
  return calls.some(call => (call.upstream_inference_cost ?? call.total_cost ?? 0n) > 0n)
}

/** How many calls of one line are looked at. */
const MOST_TRIES = 1_000

const buildAnswered = (id: string, { custom_id }: BatchRequest, body: unknown): LineOutcome => ({
  isError: false,
  text: renderLine(id, custom_id, { status_code: 200, request_id: id, body }, null),
})

function buildRefused(
  id: string,
  { dialect, request: { custom_id } }: RunningLine,
  error: GatewayError,
): LineOutcome {
  const { status, message, type, metadata } = error
  const body = dialect.errorFormat?.renderError(error, id) ?? {
    error: { code: status, message, metadata: { error_type: type, request_id: id, ...metadata } },
  }
  const response = { status_code: status, request_id: id, body }
  return { isError: true, text: renderLine(id, custom_id, response, null) }
}

/** Builds the line of a request that has no response, and why. */
const buildUnanswered = (
  id: string,
  custom_id: string | null,
  code: string,
  message: string,
): LineOutcome => ({ isError: true, text: renderLine(id, custom_id, null, { code, message }) })

const renderLine = (
  id: string,
  custom_id: string | null,
  response: object | null,
  error: object | null,
): string => `${JSON.stringify({ id: `batch_req_${id}`, custom_id, response, error })}\n`

/** How many results are read at once. */
const AT_ONCE = 50

/** Seals what came of a line, as answers are. */
export function sealOutcome(
  world: BatchWorld,
  batch_id: string,
  line: number,
  { isError, text }: LineOutcome,
): BatchResult {
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  const sealed = world.secrets.contentSeal().seal(text, buildContext(batch_id, line), nonce)
  return { batch_id, line, is_error: isError, sealed }
}

const buildContext = (batch_id: string, line: number): string => `${batch_id} ${line}`

// Where the secret was changed meanwhile, the one before opens it.
function openResult({ secrets }: BatchWorld, { batch_id, line, sealed }: BatchResult): string {
  const context = buildContext(batch_id, line)
  const text =
    secrets.contentSeal().open(sealed, context) ??
    secrets.previous()?.contentSeal().open(sealed, context)
  return (
    text ?? `${JSON.stringify({ id: null, custom_id: null, response: null, error: UNREADABLE })}\n`
  )
}

const UNREADABLE = { code: 'unreadable', message: 'It was sealed with another secret' }

/** Chooses the ids of the two files of a batch, before they are written. */
const reserveFiles = (world: BatchWorld) => ({
  output_file_id: createFileId(world),
  error_file_id: createFileId(world),
})

/** Which of the two files of a batch is written, and the lines that have no result. */
interface ResultFile {
  id: string | null
  name: 'output' | 'error'
  others?: AsyncIterable<string>
}

/**
 * Writes the results of a batch that are answers, or those that are errors, into a file under its
 * reserved id, and returns the id; null without any. A file that is there already stays as it is:
 * a process that was killed has written it. Throws what `Upload` throws.
 */
async function writeResults(
  world: BatchWorld,
  batch: Batch,
  { id, name, others }: ResultFile,
): Promise<string | null> {
  if (id === null) return null
  if (await world.store.files.find(id)) return id
  const upload = await Upload.open(world, buildOwner(batch), {
    id,
    filename: `${batch.id}_${name}.jsonl`,
    purpose: 'batch_output',
    downloadable: true,
    takesAnything: true,
    expires_after: batch.output_expires_after,
  })
  try {
    let isEmpty = true
    for await (const text of joinTexts(readTexts(world, batch, name === 'error'), others)) {
      isEmpty = false
      await upload.write(Buffer.from(text))
    }
    return isEmpty ? null : (await upload.finish()).id
  } finally {
    await upload.discard()
  }
}

async function* joinTexts(first: AsyncIterable<string>, then?: AsyncIterable<string>) {
  yield* first
  if (then) yield* then
}

async function* readTexts(world: BatchWorld, { id }: Batch, isError: boolean) {
  let after = 0
  for (;;) {
    const results = await world.store.batches.listResults(id, after, AT_ONCE)
    for (const result of results) if (result.is_error === isError) yield openResult(world, result)
    const last = results.at(-1)
    if (!last) return
    after = last.line
    await yieldToEventLoop()
  }
}

// Its key may be gone.
const buildOwner = ({ workspace_id, key_hash, user_id }: Batch): Actor => ({
  kind: 'inference',
  ...{ workspace_id, key_hash, user_id },
})

/** What came of one line, as its file has it. */
interface LineOutcome {
  isError: boolean
  text: string
  /** Whether it was written with the record of its call. */
  isOnRecord?: boolean
}
