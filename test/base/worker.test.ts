import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { hasRoomForWorker, startWorkerAtOnce } from '../../src/base/worker.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-worker-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const KERNEL = join(import.meta.dir, '../../src/base')

/** Writes a program of the Worker's side, and returns its URL. */
function writeWorker(name: string, text: string): URL {
  const path = join(root, name)
  writeFileSync(path, text)
  return pathToFileURL(path)
}

const DOUBLING = writeWorker(
  'doubling.ts',
  `import { serveJobs } from ${JSON.stringify(join(KERNEL, 'worker/serve-jobs.ts'))}
serveJobs(job => postMessage(job * 2))`,
)

test('a Worker runs when it is returned, and serves jobs alone', async () => {
  const worker = startWorkerAtOnce(DOUBLING)
  const answers: unknown[] = []
  const isDone = new Promise<void>(resolve => {
    worker.onmessage = ({ data }) => {
      if (answers.push(data) === 2) resolve()
    }
  })
  worker.postMessage(21)
  worker.postMessage(4)
  await isDone
  expect(answers).toEqual([42, 8])
  worker.terminate()
})

test('one that does not start is waited for no longer than a moment', () => {
  startWorkerAtOnce(writeWorker('busy.ts', 'for (;;);')).terminate()
})

test('none is started where file descriptors are about to run out: Bun would end the process', () => {
  const program = `
    import { openSync } from 'node:fs'
    import { hasRoomForWorker, startWorkerAtOnce } from ${JSON.stringify(join(KERNEL, 'worker.ts'))}
    const before = hasRoomForWorker()
    const open = () => { try { openSync('/dev/null'); return true } catch { return false } }
    while (open());
    try { startWorkerAtOnce(new URL(${JSON.stringify(DOUBLING.href)})) }
    catch (error) { console.log(before, hasRoomForWorker(), error.message) }`
  const path = join(root, 'scarce.ts')
  writeFileSync(path, program)
  const command = `ulimit -n 128; exec "$0" "$@"`
  const { stdout, exitCode } = Bun.spawnSync(['sh', '-c', command, process.execPath, path])
  expect([stdout.toString(), exitCode]).toEqual([
    'true false Too few file descriptors are left for a Worker\n',
    0,
  ])
  expect(hasRoomForWorker()).toBeTrue()
})

test.skipIf(process.platform !== 'linux')('a Worker gives way alone', async () => {
  const url = writeWorker(
    'patient.ts',
    `import { readlinkSync } from 'node:fs'
import { lowerPriority } from ${JSON.stringify(join(KERNEL, 'worker/lower-priority.ts'))}
import { serveJobs } from ${JSON.stringify(join(KERNEL, 'worker/serve-jobs.ts'))}
lowerPriority()
serveJobs(() => postMessage(readlinkSync('/proc/thread-self').split('/').pop()))`,
  )
  const before = readNiceValues()
  const worker = startWorkerAtOnce(url)
  const thread = await new Promise<string>(resolve => {
    worker.onmessage = ({ data }) => resolve(data)
    worker.postMessage(1)
  })
  const after = readNiceValues()
  expect(before.has(thread)).toBeFalse()
  expect(after.get(thread)).toBe(10)
  // What the engine starts meanwhile may be the Worker's own, and gives way with it.
  const stayed = [...before].filter(([other]) => after.has(other))
  expect(stayed.map(([other]) => [other, after.get(other)] as const)).toEqual(stayed)
  worker.terminate()
})

/** Reads the nice value of each thread of this process that is still there. */
function readNiceValues(): Map<string, number> {
  const values = new Map<string, number>()
  for (const thread of readdirSync('/proc/self/task'))
    try {
      const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
      values.set(thread, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]))
    } catch {
      // It has ended.
    }
  return values
}
