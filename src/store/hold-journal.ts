import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '../base/json.ts'
import { LiveSet } from '../base/live-set.ts'
import type { GarbledCall, HeldCall, HoldJournal } from '../limits/ledger.ts'
import {
  appendEvidence,
  computeChecksum,
  parseCheckedLine,
  renderCheckedLine,
  splitLines,
} from './checked-lines.ts'
import { readDataFile } from './data-files.ts'
import { type Block, LOG, type Log, readBlocks } from './log.ts'
import { isOfRecords } from './record-log.ts'

/**
 * Opens the journal of holds, which is in the log. A call gets a line before it goes out, and
 * another when it has spent more. Writing takes no lock and a few microseconds, once for all calls
 * that begin in one turn of the event loop. What is written survives a kill of the process. The end
 * of a call is not written: by then the call is on record.
 */
export function openHoldJournal(data: string, log: Log): HoldJournal {
  const openCalls = new LiveSet<HeldCall>()
  log.renderOpening = () => [...openCalls].map(renderLine).join('')
  return {
    get bytes() {
      return log.bytes
    },
    get lag() {
      return log.lag
    },
    get keepsUp() {
      return log.keepsUp
    },
    append: held => ({ written: log.add(renderLine(held)), forget: openCalls.add(held) }),
    async updateSpent(calls) {
      const changed = calls.filter(({ held, spent }) => held.spent !== spent)
      for (const { held, spent } of changed) held.spent = spent
      if (changed.length > 0) await log.add(changed.map(({ held }) => renderLine(held)).join(''))
    },
    moveTo: name => log.moveTo(name),
    reseal: isKnown => log.reseal(isKnown),
    listCalls: () => readJournal(data, log.name, log.read()).calls,
    listGarbled: () => readJournal(data, log.name, log.read()).garbled.map(readGarbled),
    async clear() {
      log.keepDamage(({ lines }) => !lines.every(isOfRecords))
      await log.take()
      removeEarlierJournal(data, log.name)
    },
  }
}

/** Where a program before the log had its journal. */
const nameEarlier = (log: string): string =>
  log === LOG ? 'holds.log' : log.replace(LOG, 'holds').concat('.log')

/** Whether a program before the log has left its journal. */
export const hasEarlierJournal = (data: string, log: string): boolean =>
  existsSync(join(data, nameEarlier(log)))

/** Lists the calls in the log of a data directory, without a look at its seals. */
export const listHeldCalls = (data: string): HeldCall[] =>
  readJournal(data, LOG, readBlocks(data, LOG, null)).calls

function removeEarlierJournal(data: string, log: string): void {
  const path = join(data, nameEarlier(log))
  const text = readDataFile(path)?.toString() ?? ''
  if (splitLines(text).some(line => parseLine(verifyLine(line)) === null))
    appendEvidence(path, text)
  rmSync(path, { force: true })
}

/** Renders the journal of a backup, as programs before the log had it. */
export const renderHolds = (calls: HeldCall[]): string =>
  calls.map(call => renderCheckedLine(renderLine(call).trimEnd(), computeChecksum)).join('')

// Field by field: copying an object with a rest pattern costs more than writing it.
const renderLine = (call: HeldCall): string => {
  const text = renderFields(call)
  if (!call.subaccounts) return `${text}\n`
  return `${text.slice(0, -1)},"subaccounts":${JSON.stringify(call.subaccounts)}}\n`
}

const renderFields = (call: HeldCall): string =>
  JSON.stringify({
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

/**
 * Reads every call in the journal, each with the last line of its last step and of every inner one,
 * and the lines that are not as they were written. Only the last block can be cut, and its calls
 * had not gone out.
 */
function readJournal(
  data: string,
  log: string,
  blocks: Block[],
): { calls: HeldCall[]; garbled: string[] } {
  const found = new Map<string, HeldCall>()
  const garbled: string[] = []
  const note = (line: string, json: string | null) => {
    const entry = parseLine(json)
    if (!entry) return garbled.push(line)
    const place = entry.inner === true ? `${entry.id} ${entry.step}` : entry.id
    if (entry.step >= (found.get(place)?.step ?? 1)) found.set(place, entry)
  }
  for (const line of splitLines(readDataFile(join(data, nameEarlier(log)))?.toString() ?? ''))
    note(line, verifyLine(line))
  for (const { lines, isWhole } of blocks)
    for (const line of lines) if (!isOfRecords(line)) note(line, isWhole ? line : null)
  return { calls: [...found.values()], garbled }
}

/** Returns the call of a line that is as it was written; null where it names none. */
function parseLine(json: string | null): HeldCall | null {
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
