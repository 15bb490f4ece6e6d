import { afterEach, expect, spyOn, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { toIncomingResponse } from '../../../src/network/egress.ts'
import { createApi } from '../../support/api.ts'
import { createTestKeys, testGateway } from '../../support/gateway.ts'
import { TestTimers } from '../../support/timers.ts'

const PROVIDER = 'http://127.0.0.1:1/v1'
const HOOK = 'http://127.0.0.2:1/hook'

const MOST = 100

let timers: TestTimers
let gateway: Gateway
/** How often the provider and the receiver were asked. */
let asked = 0
afterEach(async () => {
  await gateway.videos.stop()
  await gateway.close()
  const before = asked
  await timers.passSeconds(300, 300)
  timers.stop()
  expect(asked).toBe(before)
})

/**
 * Follows a job with the pauses of production, and notes the seconds at which its provider is asked
 * about it, and at which the receiver of its end is.
 */
async function follow(answers: { poll: () => Response; hook?: () => Response }) {
  timers = new TestTimers()
  asked = 0
  const polls: number[] = []
  const hooks: number[] = []
  gateway = await testGateway({
    clock: timers,
    egress: async ({ url, body }) => {
      const isHook = url.startsWith(HOOK)
      if (!isHook && body) return toIncomingResponse(Response.json({ id: 'v', status: 'queued' }))
      asked += 1
      // Without pauses they would be asked for ever.
      if ((isHook ? hooks : polls).push(timers.ticks() / 1000) > MOST) await new Promise(() => {})
      return toIncomingResponse((isHook ? answers.hook?.() : answers.poll()) ?? new Response())
    },
    config: {
      security: { allow_private_urls: ['127.0.0.2:1'] },
      providers: { local: { protocol: 'openai-chat', base_url: PROVIDER, api_key: 'mock' } },
      models: [
        {
          id: 'acme/film',
          output_modalities: ['video'],
          endpoints: [{ provider: 'local', model: 'film-1' }],
        },
      ],
    },
  })
  const { inference } = await createTestKeys(gateway)
  const body = { model: 'acme/film', prompt: 'A cat', callback_url: HOOK }
  const made = createApi(gateway, inference)('POST', '/videos', { body })
  await timers.settle()
  expect(await made).toMatchObject({ status: 202 })
  await gateway.videos.start()
  return { polls, hooks }
}

const running = () => Response.json({ id: 'v', status: 'in_progress' })
const done = () => Response.json({ id: 'v', status: 'completed', seconds: '4' })
const refuse = (headers = {}) => new Response('', { status: 500, headers })

test('a job is asked about ever less often, up to the longest pause', async () => {
  const { polls } = await follow({ poll: running })
  await timers.passSeconds(60)
  // Half of each pause is drawn by lot, and the lot is nothing here.
  expect(polls).toEqual([2, 3, 5, 9, 17, 27, 37, 47, 57])
  // It sleeps until the next one is due: a few timers may be others', of this process.
  using set = spyOn(globalThis, 'setTimeout')
  await timers.passSeconds(5)
  expect(set.mock.calls.length).toBeLessThan(10)
})

test('a provider that fails is asked less and less, and as late as it says', async () => {
  let after = {}
  const { polls } = await follow({ poll: () => refuse(after) })
  await timers.passSeconds(40)
  expect(polls).toEqual([2, 3, 5, 9, 17, 33])
  after = { 'retry-after': '90' }
  await timers.passSeconds(200)
  expect(polls.slice(6)).toEqual([65, 155])
})

test('the receiver of an end is asked less and less, as late as it says, and then no more', async () => {
  let after = {}
  const { hooks } = await follow({ poll: done, hook: () => refuse(after) })
  await timers.passSeconds(60)
  expect(hooks).toEqual([2, 7, 17, 37])
  after = { 'retry-after': '120' }
  await timers.passSeconds(200)
  expect(hooks.slice(4)).toEqual([77, 197])
  await timers.passSeconds(7_200, 5)
  expect(hooks).toHaveLength(10)
})

test('what is left to another server while it is asked about is not ended here', async () => {
  const { polls } = await follow({
    poll: () => {
      gateway.videos.forget()
      return done()
    },
  })
  await timers.passSeconds(5)
  expect(polls).toEqual([2])
  expect(await gateway.store.videos.listOpen()).toHaveLength(1)
  expect(await gateway.store.generations.list({}, 9)).toEqual([])
})
