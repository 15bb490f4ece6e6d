import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { restore } from '../../app/backup/restore.ts'
import { backUp } from '../../app/backup.ts'
import { examineGateway } from '../../app/doctor.ts'
import { openGateway } from '../../app/gateway.ts'
import { GatewayError } from '../../base/errors.ts'
import { runAtOnce } from '../../base/turns.ts'
import { VERSION } from '../../base/version.ts'
import { createDefaultConfig } from '../../config.ts'
import { searchText } from '../../limits/patterns/search.ts'
import { getPatternProgram } from '../../limits/patterns.ts'
import { resolveHost } from '../../network/egress.ts'
import { checkUntrustedUrl } from '../../network/untrusted-url.ts'
import { CANARY, CUTS, type Trial } from './trial.ts'

/** A promise, and how it is tried here. */
export interface Promised {
  id: string
  /** What it says, in a few words. */
  promise: string
  /** Tries it, and returns what was counted or measured. Throws where it does not hold. */
  run(trial: Trial): Promise<string>
}

const repeat = <Result>(count: number, run: (i: number) => Promise<Result>): Promise<Result[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => run(i)))

/** Throws with what was found, unless it holds. */
function check(holds: boolean, found: string): void {
  if (!holds) throw new Error(found)
}

const measure = async (run: () => Promise<unknown>): Promise<number> => {
  const before = performance.now()
  await run()
  return performance.now() - before
}

const findMedian = (times: number[]): number =>
  times.toSorted((a, b) => a - b)[times.length >> 1] ?? 0
const renderMs = (time: number): string => `${time < 10 ? time.toFixed(1) : time.toFixed(0)} ms`

async function tryLimit(trial: Trial): Promise<string> {
  const [calls, limit] = [100, 1]
  const key = await trial.createKey({ limit })
  const answers = await repeat(calls, () => trial.call('test/whole', key))
  const paid = answers.filter(({ status }) => status === 200).length
  const refused = answers.filter(({ status }) => status === 402).length
  const { text } = await trial.server.ask(key, '/key')
  const { usage } = JSON.parse(text).data
  const found = `${calls} calls at once against $${limit}: $${usage} spent, ${refused} refused`
  check(usage <= limit && paid > 0 && paid + refused === calls, found)
  return found
}

async function tryKill(trial: Trial): Promise<string> {
  const [rounds, calls, enough] = [2, 60, 15]
  const acknowledged: string[] = []
  const call = async () => {
    const answer = await trial.call('test/whole').catch(() => null)
    if (answer?.status === 200 && answer.generation && isWhole(answer.text))
      acknowledged.push(answer.generation)
  }
  for (let round = 1; round <= rounds; round++) {
    const all = repeat(calls, call)
    while (acknowledged.length < enough * round) await Bun.sleep(1)
    await trial.end('SIGKILL')
    await all
    await trial.start()
  }
  const kept = await Promise.all(
    acknowledged.map(id => trial.server.ask(trial.keys.inference, `/generation?id=${id}`)),
  )
  const lost = kept.filter(({ status }) => status !== 200).length
  const found = `${rounds} × kill -9 under load: ${acknowledged.length} answers acknowledged, ${lost} lost`
  check(lost === 0, found)
  return found
}

const isWhole = (text: string): boolean => {
  try {
    return JSON.parse(text).choices !== undefined
  } catch {
    return false
  }
}

async function tryCuts(trial: Trial): Promise<string> {
  const texts = await repeat(CUTS.length, async i => {
    const stream = await trial.server
      .stream(trial.keys.inference, `test/cut-${CUTS[i]}`)
      .catch(String)
    return typeof stream === 'string' ? stream : stream.readAll()
  })
  const isEnded = (text: string) => /"error"|No gateway answers|502|Error/.test(text)
  const finished = texts.filter(text => !isEnded(text)).length
  const found = `an answer cut at ${CUTS.length} places: ${finished} looked finished`
  check(finished === 0, found)
  return found
}

async function tryAttempts(trial: Trial): Promise<string> {
  const before = trial.provider.countHits('down')
  const { status } = await trial.call('test/down')
  const attempts = trial.provider.countHits('down') - before
  const seconds = [...trial.provider.hits].filter(([model, hits]) => isLateCut(model) && hits > 1)
  const found = `${attempts} attempts of a call that fails; ${seconds.length} second sends after a token`
  check(status === 502 && attempts === 1 && seconds.length === 0, found)
  return found
}

/** In bytes: beyond it the first words have been sent. */
const FIRST_WORDS = 400
const isLateCut = (model: string): boolean =>
  model.startsWith('cut-') && Number(model.slice('cut-'.length)) > FIRST_WORDS

async function tryOutage(trial: Trial): Promise<string> {
  const [alone, beside]: [number[], number[]] = [[], []]
  let failed = 0
  for (let i = 0; i < 15; i++) {
    alone.push(await measure(() => trial.call('test/whole')))
    beside.push(
      await measure(async () => {
        if ((await trial.call('test/fallback')).status !== 200) failed += 1
      }),
    )
  }
  const added = Math.max(0, findMedian(beside) - findMedian(alone))
  const found = `${beside.length} calls with their first provider down: ${failed} failed, ${renderMs(added)} more`
  check(failed === 0, found)
  return found
}

async function tryAbort(trial: Trial): Promise<string> {
  const count = 20
  const { closed } = trial.provider
  const before = closed.length
  const streams = await repeat(count, async () => {
    const stream = await trial.server.stream(trial.keys.inference, 'test/held')
    await stream.read()
    return stream
  })
  const left = performance.now()
  for (const stream of streams) stream.leave()
  while (closed.length < before + count && performance.now() < left + 1_000) await Bun.sleep(1)
  const stopped = closed.length - before
  const slowest = Math.max(0, ...closed.slice(before)) - left
  const found = `${stopped} of ${count} streams that were left stopped at their provider in ${renderMs(slowest)}`
  check(stopped === count, found)
  return found
}

async function tryWorkspaces(trial: Trial): Promise<string> {
  const { management, inference } = trial.keys
  const { generation } = await trial.call('test/whole')
  const workspace = JSON.parse(
    (await trial.server.ask(management, '/workspaces', { name: 'Other', slug: 'other' })).text,
  ).data.id
  const stranger = await trial.createKey({ workspace_id: workspace })
  const asked: [key: string, path: string][] = [
    [stranger, `/generation?id=${generation}`],
    ...['/keys', '/workspaces', '/credits', '/activity', '/guardrails', '/audit'].map(
      path => [inference, path] as [string, string],
    ),
    ...['/generation?id=x', '/key', '/keys', '/credits'].map(
      path => ['gw-v1-nobody', path] as [string, string],
    ),
  ]
  const answers = await Promise.all(asked.map(([key, path]) => trial.server.ask(key, path)))
  const shown = answers.filter(({ status }) => status < 400).length
  const found = `${asked.length} requests with a key of others or of none: ${shown} answered`
  check(shown === 0, found)
  return found
}

async function tryUrls(trial: Trial): Promise<string> {
  const world = { config: createDefaultConfig(), egress: { resolve: resolveHost } }
  const refusals = await Promise.all(
    HOSTILE_URLS.map(url =>
      checkUntrustedUrl(world as never, url).then(
        () => url,
        () => null,
      ),
    ),
  )
  const passed = refusals.filter(url => url !== null)
  const before = [...trial.provider.hits.values()].length
  const content = [{ type: 'image_url', image_url: { url: `${trial.provider.url}/inside.png` } }]
  await trial.call('test/whole', undefined, { messages: [{ role: 'user', content }] })
  const reached = [...trial.provider.hits.keys()].filter(model => model === 'undefined').length
  const found = `${HOSTILE_URLS.length} URLs of inside hosts: ${passed.length} passed, ${reached} packets`
  check(passed.length === 0 && reached === 0 && before > 0, [found, ...passed].join(' '))
  return found
}

async function trySecrets(trial: Trial): Promise<string> {
  const secrets = [CANARY, trial.keys.management, trial.keys.inference].map(text =>
    Buffer.from(text),
  )
  const files = trial.readFiles()
  const leaks = files.filter(file => secrets.some(secret => file.includes(secret))).length
  const found = `${secrets.length} secrets sought in ${files.length} files and the log: ${leaks} found`
  check(leaks === 0, found)
  return found
}

async function tryPatterns(): Promise<string> {
  const text = `${'a'.repeat(100_000)} SECRET-1234`
  let matches = 0
  const time = await measure(async () => {
    runAtOnce(searchText(getPatternProgram('(a+)+c|SECRET-\\d+'), text, () => void matches++))
  })
  const found = `(a+)+c|SECRET-\\d+ in ${text.length} characters: ${matches} found in ${renderMs(time)}`
  check(matches === 1 && time < 2_000, found)
  return found
}

async function tryTelemetry(trial: Trial): Promise<string> {
  const times: number[] = []
  let failed = 0
  for (let i = 0; i < 30; i++)
    times.push(
      await measure(async () => {
        if ((await trial.call('test/whole')).status !== 200) failed += 1
      }),
    )
  const found = `${times.length} calls beside a dead collector: ${failed} failed, ${renderMs(findMedian(times))} each`
  check(failed === 0, found)
  return found
}

async function tryStreams(trial: Trial): Promise<string> {
  const count = 100
  const before = readResident(trial.server.pid)
  const streams = await repeat(count, async () => {
    const stream = await trial.server.stream(trial.keys.inference, 'test/held')
    await stream.read()
    return stream
  })
  const after = readResident(trial.server.pid)
  trial.provider.release()
  const texts = await Promise.all(streams.map(stream => stream.readAll()))
  const ended = texts.filter(text => text.includes('[DONE]')).length
  const each = Math.max(0, Math.round(((after ?? 0) - (before ?? 0)) / count))
  const memory =
    before === null || after === null
      ? 'memory is not shown by this system'
      : `${each} KiB each, ${Math.round(after / 1024)} MiB in all`
  const found = `${count} live streams: ${memory}; ${ended} ended with [DONE]`
  check(ended === count && (before === null || each < 1024), found)
  return found
}

/** Reads the resident memory of a process in KiB; null where the system does not show it. */
function readResident(pid: number): number | null {
  try {
    const line = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
    return line ? Number(line[1]) : null
  } catch {
    return null
  }
}

async function tryStop(trial: Trial): Promise<string> {
  const count = 20
  const streams = await repeat(count, async () => {
    const stream = await trial.server.stream(trial.keys.inference, 'test/held')
    await stream.read()
    return stream
  })
  const ended = trial.end('SIGTERM')
  trial.provider.release()
  const texts = await Promise.all(streams.map(stream => stream.readAll()))
  const code = await ended
  const whole = texts.filter(text => text.includes('[DONE]') && !text.includes('"error"')).length
  const found = `SIGTERM with ${count} live streams: ${count - whole} cut, exit code ${code}`
  check(whole === count && code === 0, found)
  return found
}

/** The server has ended by now. */
async function tryBooks(trial: Trial): Promise<string> {
  const gateway = await openGateway({ data: trial.data })
  const { data } = await examineGateway(gateway).finally(() => gateway.close())
  const wrong = data.filter(({ ok }) => !ok)
  const rows = data.find(({ check: name }) => name === 'chain')?.found ?? ''
  const found = `ledger: ${rows}; ${data.length} checks, ${wrong.length} wrong; a flipped bit is found`
  check(
    wrong.length === 0,
    wrong.map(({ check: name, found: what }) => `${name}: ${what}`).join('; '),
  )
  check(await isBitFlipFound(trial), 'a flipped bit in an amount is not found')
  return found
}

/** Flips one bit of amounts in a backup, where no page of SQLite has a checksum. */
async function isBitFlipFound({ root, data }: Trial): Promise<boolean> {
  const file = join(root, 'trial.backup')
  const choice = { force: true, secret: undefined }
  await backUp({ ...choice, data, file, withSecret: true })
  const bytes = readFileSync(file)
  // What pages no longer use may have the same bytes, so each place is changed.
  let place = bytes.indexOf(CHARGED)
  check(place !== -1, 'no cost of a whole answer is in the backup')
  for (; place !== -1; place = bytes.indexOf(CHARGED, place))
    bytes[place + 3] = (bytes[place + 3] ?? 0) ^ 1
  writeFileSync(file, bytes)
  return restore({ ...choice, data: join(root, 'restored'), file }).then(
    () => false,
    thrown => {
      if (thrown instanceof GatewayError && thrown.type === 'conflict') return true
      throw thrown
    },
  )
}

/** The cost of a whole answer in nano-dollars and the column after it, as SQLite writes them. */
const CHARGED = Buffer.concat([Buffer.from([0x00, 0xe4, 0xe1, 0xc0]), Buffer.from('exact')])

async function tryBinary(trial: Trial): Promise<string> {
  const hasher = new Bun.CryptoHasher('sha256')
  for await (const bytes of Bun.file(process.execPath).stream()) hasher.update(bytes)
  const stray = trial.provider.hits.get('') ?? 0
  check(stray === 0, `${stray} requests that no call made`)
  return `version ${VERSION}, sha256 ${hasher.digest('hex').slice(0, 16)}…, ${stray} requests that no call made`
}

/** The fifteen promises, in the order in which they are tried: the last ones need the server ended. */
export const PROMISES: Promised[] = [
  { id: 'P1', promise: 'a spending limit is a limit', run: tryLimit },
  { id: 'P4', promise: 'a cut-off answer never looks finished', run: tryCuts },
  {
    id: 'P5',
    promise: 'one request, each endpoint asked once, no silent second send',
    run: tryAttempts,
  },
  { id: 'P6', promise: 'an outage costs milliseconds, not requests', run: tryOutage },
  { id: 'P7', promise: 'an aborted stream stops costing', run: tryAbort },
  { id: 'P8', promise: 'no key sees another workspace', run: tryWorkspaces },
  { id: 'P9', promise: 'no URL reaches the inside', run: tryUrls },
  { id: 'P11', promise: 'filters run in linear time', run: tryPatterns },
  { id: 'P12', promise: 'telemetry never slows inference', run: tryTelemetry },
  { id: 'P13', promise: 'live streams cost kilobytes', run: tryStreams },
  { id: 'P3', promise: 'kill -9 loses nothing acknowledged', run: tryKill },
  { id: 'P14', promise: 'a stop drops no stream', run: tryStop },
  { id: 'P10', promise: 'secrets do not leave', run: trySecrets },
  { id: 'P2', promise: 'the bill equals the ledger', run: tryBooks },
  { id: 'P15', promise: 'the binary is the one that was tested', run: tryBinary },
]

/** URLs of hosts inside, as callers have written them to get past a gateway. */
const HOSTILE_URLS = [
  'file:///etc/passwd',
  'data:text/plain,x',
  'ftp://127.0.0.1/',
  'gopher://127.0.0.1/',
  'http://127.0.0.1/',
  'http://127.1/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://017700000001/',
  'http://0.0.0.0/',
  'http://localhost/',
  'http://localhost./',
  'http://a.localhost/',
  'http://10.0.0.1/',
  'http://172.16.0.1/',
  'http://192.168.0.1/',
  'http://169.254.169.254/latest/meta-data/',
  'http://100.64.0.1/',
  'http://198.18.0.1/',
  'http://224.0.0.1/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'http://[::]/',
  'http://[::1]/',
  'http://[fc00::1]/',
  'http://[fe80::1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[64:ff9b::7f00:1]/',
  'http://[2002:7f00:1::]/',
  'http://user:password@127.0.0.1/',
  'http://127.0.0.1:22/',
  'http://127.0.0.1:6379/',
  'http://１２７.0.0.1/',
  'http://127。0。0。1/',
  'http:\\\\127.0.0.1/',
]
