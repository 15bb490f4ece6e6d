import { closeSync, existsSync, fstatSync, ftruncateSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { yieldToEventLoop } from '../base/clock.ts'
import { unavailable } from '../base/errors.ts'
import { parseObject } from '../base/json.ts'
import { LiveSet } from '../base/live-set.ts'
import type { GarbledCall, HeldCall, HoldJournal } from '../limits/ledger.ts'
import {
  computeChecksum,
  keepDamagedLog,
  parseCheckedLine,
  renderCheckedLine,
  splitLines,
} from './checked-lines.ts'
import { openDataFile, readDataFile, writeDataFile } from './data-files.ts'

/** Beyond this many bytes the file is rewritten with only the calls that still run. */
const LARGEST = 4 * 1024 * 1024

/**
 * Opens the journal of holds, a file beside the database. A call gets a line before it goes out,
 * and another when it has spent more. Writing takes no lock and a few microseconds, once for all
 * calls that begin in one turn of the event loop. What is written survives a kill of the process.
 * The end of a call is not written: by then the call is on record.
 */
export function openHoldJournal(data: string, name = 'holds.log'): HoldJournal {
  let path = join(data, name)
  const openCalls = new LiveSet<HeldCall>()
  let file: number | undefined
  let size = 0
  let pending: PendingWrite | undefined

  function append(lines: string): void {
    file ??= openFile()
    try {
      size += writeAll(file, lines)
    } catch (error) {
      // These calls do not go out, so no part of their lines may stay.
      ftruncateSync(file, size)
      throw error
    }
    if (size > LARGEST) rewrite()
  }

  function openFile(): number {
    const existing = openDataFile(path, 'append')
    size = fstatSync(existing).size
    return existing
  }

  function rewrite(): void {
    const newPath = `${path}.new`
    const newFile = openDataFile(newPath, 'replace')
    size = writeAll(newFile, [...openCalls].map(renderLine).join(''))
    renameSync(newPath, path)
    if (file !== undefined) closeSync(file)
    file = newFile
  }

  async function writePending(): Promise<void> {
    await yieldToEventLoop()
    const lines = pending?.lines ?? ''
    pending = undefined
    try {
      append(lines)
    } catch (cause) {
      throw unavailable('The call could not be recorded', undefined, cause)
    }
  }

  return {
    append(held) {
      pending ??= { lines: '', written: writePending() }
      pending.lines += renderLine(held)
      return { written: pending.written, forget: openCalls.add(held) }
    },
    updateSpent(calls) {
      const changed = calls.filter(({ held, spent }) => held.spent !== spent)
      for (const { held, spent } of changed) held.spent = spent
      if (changed.length > 0) append(changed.map(({ held }) => renderLine(held)).join(''))
    },
    moveTo(other) {
      const target = join(data, other)
      if (existsSync(path)) renameSync(path, target)
      path = target
    },
    listCalls: () => readJournal(path).calls,
    listGarbled: () => readJournal(path).garbled.map(readGarbled),
    clear() {
      if (readJournal(path).garbled.length > 0) keepDamagedLog(path)
      rewrite()
    },
  }
}

/** The lines of all calls that began in this turn of the event loop, written at its end. */
interface PendingWrite {
  lines: string
  written: Promise<void>
}

/** Writes the whole text or throws. Returns its number of bytes. */
function writeAll(file: number, text: string): number {
  const written = writeSync(file, text)
  if (written < Buffer.byteLength(text)) throw new Error('Only a part of the lines was written')
  return written
}

/** Writes the journal of a copied data directory, which no server uses. */
export const writeHolds = (data: string, calls: HeldCall[]): void =>
  writeDataFile(join(data, 'holds.log'), calls.map(renderLine).join(''))

// Field by field: copying an object with a rest pattern costs more than writing it.
const renderLine = (call: HeldCall): string => {
  const json = JSON.stringify({
    key_hash: call.key_hash,
    user_id: call.user_id,
    workspace_id: call.workspace_id,
    id: call.id,
    batch_id: call.batch_id,
    request_id: call.request_id,
    created_at: call.created_at,
    api_type: call.api_type,
    model: call.model,
    streamed: call.streamed,
    step: call.step,
    inner: call.inner,
    byok: call.byok,
    provider: call.provider,
    region: call.region,
    nanos: String(call.nanos),
    spent: String(call.spent),
  })
  return renderCheckedLine(json, computeChecksum)
}

/**
 * Reads every call in the journal, each with the last line of its last step and of every inner one,
 * and the lines that are not as they were written. Only the last line can be cut, and its call
 * had not gone out.
 */
function readJournal(path: string): { calls: HeldCall[]; garbled: string[] } {
  const found = new Map<string, HeldCall>()
  const lines = splitLines(readDataFile(path)?.toString() ?? '')
  const garbled: string[] = []
  for (const line of lines) {
    const entry = parseLine(line)
    if (!entry) garbled.push(line)
    const place = entry?.inner === true ? `${entry.id} ${entry.step}` : entry?.id
    if (entry && place !== undefined && entry.step >= (found.get(place)?.step ?? 1))
      found.set(place, entry)
  }
  return { calls: [...found.values()], garbled }
}

/** Returns the call of a line; null unless the line is as it was written. */
function parseLine(line: string): HeldCall | null {
  const json = verifyLine(line)
  const { nanos, spent, ...call } = (json !== null && parseObject(json)) || {}
  if (typeof call.id !== 'string' || !isAmount(nanos) || !isAmount(spent)) return null
  return {
    ...(call as unknown as HeldCall),
    step: parseStep(call.step),
    nanos: BigInt(nanos),
    spent: BigInt(spent),
  }
}

// Lines from versions before checksums begin with their call.
const verifyLine = (line: string): string | null =>
  line.startsWith('{') ? line : parseCheckedLine(line, computeChecksum)

const isAmount = (text: unknown): text is string =>
  typeof text === 'string' && /^\d{1,30}$/.test(text)

// Lines from versions before steps have none.
const parseStep = (step: unknown): number =>
  typeof step === 'number' && Number.isSafeInteger(step) && step > 0 ? step : 1

/** Reads what is left of a garbled line, field by field. */
function readGarbled(line: string): GarbledCall {
  const amounts = ['nanos', 'spent'].map(name => readField(line, name, /^\d{1,18}$/))
  const [smallest = 0n] = amounts
    .filter(amount => amount !== null)
    .map(BigInt)
    .sort((a, b) => (a < b ? -1 : 1))
  return {
    id: readField(line, 'id', /^gen-\d{10,}-[0-9a-z]{10,}$/),
    request_id: readField(line, 'request_id', /^[\w-]{1,200}$/),
    key_hash: readField(line, 'key_hash', /^[0-9a-f]{64}$/),
    model: readField(line, 'model', /^[\w./:@~-]{1,300}$/),
    api_type: readField(line, 'api_type', /^[\w./-]{1,50}$/),
    created_at: readField(line, 'created_at', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    estimate: smallest,
  }
}

/** Returns the text of a field; null where it does not look like one. */
function readField(line: string, name: string, form: RegExp): string | null {
  const start = line.indexOf(`"${name}":"`)
  const value = start === -1 ? '' : (line.slice(start + name.length + 4).split('"', 1)[0] ?? '')
  return form.test(value) ? value : null
}
