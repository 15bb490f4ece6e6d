import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createLimitedKey, fetchKeyState } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { type Script, startUpstream, type Upstream } from '../support/upstream.ts'

/** A server and its two providers, while tests run. */
export interface MediaHouse {
  server: LocalServer
  first: Upstream
  second: Upstream
}

/** A model: its id, its providers, its prices, and what it is called and gives. */
type MediaModel = [
  id: string,
  providers: string[],
  prices: object,
  more?: { model?: string; output_modalities?: string[] },
]

interface MediaHouseOptions {
  modality: string
  /** Providers beside `local`, which is the first upstream, and `spare`, the second. */
  providers: Record<string, { isSecond?: true } & Record<string, unknown>>
  models: MediaModel[]
  /** What models are called where they do not say. */
  model: string
  /** What each upstream answers before each test. */
  answer: Script
}

/**
 * Opens a server of models of one modality for the tests of a file. `acme/text` gives text. Providers
 * of the server's own host may be fetched from.
 */
export function openMediaHouse(options: MediaHouseOptions): MediaHouse {
  const house = {} as MediaHouse
  beforeAll(async () => {
    const [first, second] = await Promise.all([startUpstream(), startUpstream()])
    const provider = (base_url: string, more: object = {}) => ({
      ...{ protocol: 'openai-chat', base_url, api_key: 'mock' },
      ...more,
    })
    const others = Object.entries(options.providers).map(([slug, { isSecond, ...more }]) => [
      slug,
      provider((isSecond ? second : first).url, more),
    ])
    const models: MediaModel[] = [
      ...options.models,
      ['acme/text', ['local'], { prompt: 1, completion: 1 }, { output_modalities: ['text'] }],
    ]
    const server = await startLocalServer({
      routing: { choice: 'listed', failures: 0 },
      security: { allow_private_urls: [new URL(first.url).host] },
      providers: {
        ...{ local: provider(first.url), spare: provider(second.url) },
        ...Object.fromEntries(others),
      },
      models: models.map(([id, slugs, prices, { model = options.model, ...more } = {}]) => ({
        ...{ id, output_modalities: [options.modality], ...more },
        endpoints: slugs.map(slug => ({ provider: slug, model, usd_per_million_tokens: prices })),
      })),
    })
    Object.assign(house, { server, first, second })
  })
  afterAll(async () => {
    await house.server[Symbol.asyncDispose]()
    await Promise.all([house.first.close(), house.second.close()])
  })
  beforeEach(() => {
    for (const upstream of [house.first, house.second]) {
      upstream.hits.length = 0
      upstream.plan(options.answer)
    }
  })
  return house
}

/** Reads a refusal: its status, the field that it names, and what it says. */
export async function readRefusal(pending: Response | Promise<Response>) {
  const response = await pending
  const { error } = (await response.json()) as {
    error: { message: string; metadata?: { field?: string } }
  }
  return { status: response.status, field: error.metadata?.field, message: error.message }
}

interface MediaCalls {
  /** Makes a call of a model of `local`, then `spare`. */
  ask(body: object, more?: RequestInit & { key?: string }): Promise<Response>
  /** Requires that an answer is what `spare` gives, after what makes no answer of `local`. */
  expectSpare(response: Response): Promise<void>
  /** What a call asks of a model that fails over. */
  asked?: object
  failures: [what: string, script: Script][]
  /** What the second provider answers then, if it is not what it always does. */
  spare?: Script
  /** What such a call costs. */
  usd: number
  /** What is no answer of any provider. */
  useless: Script
  /** Bodies that an endpoint cannot do, and what the 404 names. */
  lacking: [model: string, body: object, name: string][]
  /** Bodies that are wrong, and the field that the 400 names. */
  wrong: [body: object, field: string][]
  /** A limit, a call that may cost more, and one that may not. */
  reserve: { usd: number; over: object; within: object }
}

/** Tests the life of calls of media: what happens to every kind alike, whatever is made. */
export function testMediaLife(house: MediaHouse, calls: MediaCalls): void {
  const { ask, expectSpare, asked = {}, usd, useless, reserve } = calls
  const readUsage = async () => (await fetchKeyState(house.server)).usage

  test.each(calls.failures)('asks the next provider after %s', async (_, script) => {
    house.first.plan(script)
    if (calls.spare) house.second.plan(calls.spare)
    const before = await readUsage()
    await expectSpare(await ask(asked))
    expect([house.first.hits.length, house.second.hits.length]).toEqual([1, 1])
    expect((await readUsage()) - before).toBeCloseTo(usd)
  })

  test('charges nothing where no provider delivers', async () => {
    const before = await readUsage()
    for (const upstream of [house.first, house.second]) upstream.plan(useless)
    expect((await ask({})).status).toBe(502)
    expect(await readUsage()).toBe(before)
  })

  test.each(calls.lacking)('refuses what %s cannot do: %j', async (model, body, name) => {
    const { status, message } = await readRefusal(ask({ model, ...body }))
    expect([status, message]).toEqual([404, expect.stringContaining(`(${name})`)])
    expect(house.first.hits).toEqual([])
  })

  test.each(calls.wrong)('refuses %j, naming the field', async (body, field) => {
    expect(await readRefusal(ask(body))).toMatchObject({ status: 400, field })
    expect(house.first.hits).toEqual([])
  })

  test('refuses a model that gives something else', async () => {
    const { status, message } = await readRefusal(ask({ model: 'acme/text' }))
    expect([status, message]).toEqual([400, expect.stringContaining('acme/text gives text')])
  })

  test('sets all of it aside before any is asked for', async () => {
    const key = await createLimitedKey(house.server, reserve.usd)
    expect((await ask(reserve.over, { key })).status).toBe(402)
    expect(house.first.hits).toEqual([])
    expect((await ask(reserve.within, { key })).status).toBe(200)
  })

  test('closes its connection to the provider when the client leaves', async () => {
    house.first.plan({ wait: 'never' })
    const controller = new AbortController()
    const call = ask({}, { signal: controller.signal }).catch(() => null)
    const hit = await house.first.hit()
    controller.abort()
    await call
    await hit.clientLeft
    expect(house.second.hits).toEqual([])
  })
}
