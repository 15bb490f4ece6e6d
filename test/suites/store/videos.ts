import { expect, test } from 'bun:test'
import { buildGeneration } from '../../support/generation.ts'
import { buildVideoJob } from '../../support/video-job.ts'
import { CREATED, type GetStore, readErrorType, WORKSPACE } from './rows.ts'

const LARGEST = 2n ** 62n

/** Builds the job with this number. */
const buildJob = (number: number, more: object = {}) =>
  buildVideoJob({
    id: `job-${number}`,
    generation_id: `gen-${number}`,
    workspace_id: WORKSPACE,
    created_at: `2026-03-04T05:06:0${number}.000Z`,
    own: LARGEST,
    byok: null,
    ...more,
  })

/** Tests what every store promises about jobs that make videos. */
export function testVideos(store: GetStore): void {
  const end = (number: number) =>
    store().generations.record([
      {
        generation: buildGeneration({ id: `gen-${number}` }),
        charge: null,
        job: {
          id: `job-${number}`,
          status: 'completed',
          error: null,
          outputs: '["/a"]',
          cost: LARGEST,
          ended_at: CREATED,
        },
      },
    ])

  test('a job is found as it was inserted, once for each call', async () => {
    const { videos } = store()
    await videos.insert(buildJob(1))
    expect(await videos.find('job-1')).toEqual(buildJob(1))
    expect(await videos.find('job-2')).toBeUndefined()
    for (const twin of [buildJob(1), { ...buildJob(2), generation_id: 'gen-1' }])
      expect(await readErrorType(videos.insert(twin))).toBe('conflict')
  })

  test('jobs are listed newest first, by workspace and status; open ones oldest first', async () => {
    const { videos } = store()
    for (const number of [1, 2, 3]) await videos.insert(buildJob(number))
    await videos.markStarted('job-2')
    const list = async (workspace_id: string | null, status: 'pending' | null, limit = 9) =>
      (await videos.list({ workspace_id, status, limit })).map(({ id }) => id)
    expect(await list(WORKSPACE, null)).toEqual(['job-3', 'job-2', 'job-1'])
    expect(await list(null, 'pending')).toEqual(['job-3', 'job-1'])
    expect(await list(null, null, 1)).toEqual(['job-3'])
    expect(await list('elsewhere', null)).toEqual([])
    expect((await videos.listOpen()).map(({ id }) => id)).toEqual(['job-1', 'job-2', 'job-3'])
  })

  test('a job ends with the record of its call, or not at all', async () => {
    const { videos, generations } = store()
    await videos.insert(buildJob(1, { details: '{}' }))
    await end(1)
    const ended = { status: 'completed', outputs: '["/a"]', cost: LARGEST, details: '' }
    expect(await videos.find('job-1')).toMatchObject(ended)
    expect(await videos.listOpen()).toEqual([])
    await videos.insert(buildJob(2))
    await generations.record([{ generation: buildGeneration({ id: 'gen-2' }), charge: null }])
    expect(await readErrorType(end(2))).toBe('conflict')
    expect(await videos.find('job-2')).toEqual(buildJob(2))
  })

  test('a job that has ended is neither begun nor cancelled', async () => {
    const { videos } = store()
    await videos.insert(buildJob(1))
    expect(await videos.requestCancel('job-1', CREATED)).toBe(true)
    expect(await videos.find('job-1')).toMatchObject({ cancel_requested_at: CREATED })
    await end(1)
    await videos.markStarted('job-1')
    expect(await videos.requestCancel('job-1', '2030-01-01T00:00:00.000Z')).toBe(false)
    expect(await videos.requestCancel('job-9', CREATED)).toBe(false)
    expect(await videos.find('job-1')).toMatchObject({
      ...{ status: 'completed', cancel_requested_at: CREATED },
    })
  })
}
