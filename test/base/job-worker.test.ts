import { afterEach, describe, expect, mock, test } from 'bun:test'
import { JobError, JobWorker, type JobWorkerOptions } from '../../src/base/job-worker.ts'

const open: { close(): void }[] = []
afterEach(() => {
  for (const one of open.splice(0)) one.close()
})

const startScript = (script: string) => () =>
  new Worker(URL.createObjectURL(new Blob([script])), { ref: false })

/** Doubles numbers. It is silent about 13, ends at 7 and throws at 5. */
const DOUBLER = `self.onmessage = ({ data }) => {
  if (data === 7) process.exit()
  if (data === 5) throw new Error('five')
  if (data !== 13) postMessage(2 * data)
}`

function openWorker(replace: Partial<JobWorkerOptions> = {}): JobWorker<number, number> {
  const worker = new JobWorker<number, number>({
    startWorker: startScript(DOUBLER),
    timeoutMs: 30_000,
    idleMs: 60_000,
    maxWaiting: 100,
    maxWaitingSize: 1_000,
    ...replace,
  })
  open.push(worker)
  return worker
}

const outcome = (promise: Promise<number>): Promise<number | string> =>
  promise.catch(thrown => (thrown instanceof JobError ? thrown.problem : 'another error'))

describe('a Worker for jobs', () => {
  test('does them one after the other', async () => {
    const startWorker = mock(startScript(DOUBLER))
    const worker = openWorker({ startWorker })
    const jobs = Array.from({ length: 50 }, (_, i) => i + 100)
    expect(await Promise.all(jobs.map(job => worker.run(job, 1)))).toEqual(jobs.map(job => 2 * job))
    expect(startWorker).toHaveBeenCalledTimes(1)
  })

  test('is started anew after a job that takes too long, and does those behind it', async () => {
    let started = 0
    const silent = startScript('self.onmessage = () => {}')
    const worker = openWorker({
      timeoutMs: 50,
      startWorker() {
        started += 1
        return started === 1 ? silent() : startScript(DOUBLER)()
      },
    })
    expect(await outcome(worker.run(1, 1))).toBe('late')
    expect(started).toBe(1)
    // Its start may take longer than the bound on a busy machine.
    const patient = openWorker()
    expect(await Promise.all([patient.run(1, 1), patient.run(2, 1)])).toEqual([2, 4])
  })

  test.each([5, 7])('is started anew after a job that breaks it: %i', async job => {
    const worker = openWorker()
    const outcomes = [worker.run(1, 1), worker.run(job, 1), worker.run(2, 1)].map(outcome)
    expect(await Promise.all(outcomes)).toEqual([2, 'broken', 4])
  })

  test('that cannot be started breaks each job', async () => {
    const worker = openWorker({
      startWorker() {
        throw new Error('no memory')
      },
    })
    expect(await Promise.all([worker.run(1, 1), worker.run(2, 1)].map(outcome))).toEqual([
      'broken',
      'broken',
    ])
  })

  test('refuses more than may wait, by number and by size', async () => {
    const worker = openWorker({ maxWaiting: 2, maxWaitingSize: 10 })
    const outcomes = [worker.run(1, 9), worker.run(2, 9), worker.run(3, 2), worker.run(4, 1)]
    expect(await Promise.all(outcomes.map(outcome))).toEqual([2, 4, 'busy', 8])
    const many = openWorker({ maxWaiting: 1 })
    const others = [many.run(1, 1), many.run(2, 1), many.run(3, 1)]
    expect(await Promise.all(others.map(outcome))).toEqual([2, 4, 'busy'])
  })

  const ask = (owner: string, isGone = () => false) => ({ owner, isGone })

  test('takes turns between those who ask', async () => {
    const worker = openWorker()
    const done: number[] = []
    const run = (job: number, owner: string) =>
      worker.run(job, 1, [], ask(owner)).then(() => done.push(job))
    const many = [10, 11, 12, 13].map(job => run(job === 13 ? 14 : job, 'a'))
    await Promise.all([...many, run(20, 'b'), run(21, 'b'), run(30, 'c')])
    expect(done).toEqual([10, 20, 30, 11, 21, 12, 14])
  })

  test('leaves one who asks half of what may wait', async () => {
    const worker = openWorker({ maxWaiting: 4, maxWaitingSize: 100 })
    const run = (job: number, owner: string, size = 1) =>
      outcome(worker.run(job, size, [], ask(owner)))
    const outcomes = [run(1, 'a'), run(2, 'a'), run(3, 'a'), run(4, 'a'), run(5_000, 'b')]
    expect(await Promise.all(outcomes)).toEqual([2, 4, 6, 'busy', 10_000])
    const large = [run(1, 'a'), run(2, 'a', 80), run(3, 'a'), run(4, 'b', 20)]
    expect(await Promise.all(large)).toEqual([2, 4, 'busy', 8])
  })

  test('does nothing for those who have gone, and has their place', async () => {
    const worker = openWorker({ maxWaiting: 2 })
    let hasGone = false
    const gone = ask('a', () => hasGone)
    const first = outcome(worker.run(1, 1, [], ask('b')))
    const left = [2, 3].map(job => outcome(worker.run(job, 1, [], gone)))
    expect(await left[1]).toBe('busy')
    hasGone = true
    const others = [4, 6].map(job => outcome(worker.run(job, 1, [], ask('b'))))
    expect(await Promise.all([first, left[0], ...others])).toEqual([2, 'gone', 8, 'busy'])
  })

  test('rejects what is not done when it closes, and what comes later', async () => {
    const worker = openWorker()
    const outcomes = [worker.run(13, 1), worker.run(1, 1)].map(outcome)
    worker.close()
    expect(await Promise.all(outcomes)).toEqual(['closed', 'closed'])
    expect(await outcome(worker.run(1, 1))).toBe('closed')
  })
})
