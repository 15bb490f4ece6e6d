import { afterEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { openFilters } from '../../src/limits/filters.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import { expectBooks } from '../support/invariants.ts'
import { DOORS, type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'
import {
  chunkedEnd,
  delta,
  done,
  ending,
  finish,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * What tools that ask models show while they run: only the events of the Responses API have a form
 * for it (wire reference D.5, D.6).
 */

let stage: LoopStage | undefined
let slow: Upstream | undefined
afterEach(async () => {
  await stage?.close()
  await slow?.close()
  stage = undefined
})

/** The outer model calls this tool once. */
const calling =
  (name: string, times = 1): Scenario =>
  ({ results }) => {
    if (results.length > 0) return { answer: { text: 'Done.', finish: 'stop' } }
    const calls = Array.from({ length: times }, (_, i) => ({
      ...{ id: `call_${i}`, name, input: JSON.stringify({ prompt: `Question ${i}` }) },
    }))
    return { answer: { calls, finish: 'tool_calls' } }
  }

/** Opens a stage whose models `acme/slow` and `acme/slower` answer with this script. */
async function open(scenario: Scenario, script: (prompt: string) => Script): Promise<LoopStage> {
  slow = await startUpstream()
  slow.answer(({ json }) => {
    const { messages } = json as { messages: { content: string }[] }
    return script(messages.at(-1)?.content ?? '')
  })
  const base_url = slow.url
  stage = await openLoopStage(scenario, {
    limit: 1,
    changeConfig: ({ providers, models }) => ({
      limits: { max_tokens: 100_000 },
      providers: {
        ...(providers as Json),
        slow: { protocol: 'openai-chat', base_url, api_key: 'mock' },
      },
      models: [...(models as Json[]), ...['slow', 'slower'].map(buildModel)],
    }),
  })
  return stage
}

const buildModel = (name: string): Json => ({
  id: `acme/${name}`,
  context_length: 100_000,
  endpoints: [
    { provider: 'slow', model: name, usd_per_million_tokens: { prompt: 1, completion: 2 } },
  ],
})

const ADVISOR = (parameters: Json = {}): Json => ({
  ...{ stream: true, model: 'acme/openai-chat' },
  tools: [
    { type: 'gateway:advisor', parameters: { model: 'acme/slow', stream: true, ...parameters } },
  ],
})

/** Reads a response event by event. */
async function* readEvents(response: Response): AsyncGenerator<Json> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    const whole = text.split('\n\n')
    text = whole.pop() ?? ''
    for (const one of whole) {
      const data = one.split('\n').find(line => line.startsWith('data: {'))
      if (data) yield JSON.parse(data.slice('data: '.length))
    }
  }
}

const isDelta = ({ type }: Json) => type === 'response.output_text.delta'
const joinDeltas = (events: Json[], item_id: unknown) =>
  events
    .filter(event => isDelta(event) && event.item_id === item_id)
    .map(event => event.delta)
    .join('')

const readOutput = (events: Json[]): Json[] => {
  const { output = [] } = (events.at(-1)?.response ?? {}) as { output?: Json[] }
  return output
}

/** Gives the key of the stage a filter of its answers. */
function filterAnswers({ gateway, key }: LoopStage, action: 'redact' | 'block'): void {
  const rule = { guardrail_id: 'g-1', scope: 'key', action, slug: 'email' } as const
  const filters = openFilters([{ ...rule, output: true }])
  const policy = getPolicy(gateway, { ...getOperator(gateway), key_hash: 'nobody' })
  gateway.memory.policies.set(key.hash, { ...policy, filters })
}

describe('advice that is streamed', () => {
  test('reaches the client while it is written, at its item, and is whole in the end', async () => {
    const at = await open(calling('advisor'), () => [
      ...[sseHead(), delta('Sleep ')],
      ...[{ wait: 'read' }, delta('on '), delta('it.'), ending()],
    ])
    const events: Json[] = []
    for await (const event of readEvents(await at.send('responses', ADVISOR()))) {
      events.push(event)
      // Its model goes on only once the client has read the beginning.
      if (isDelta(event) && event.delta === 'Sleep ') slow?.open('read')
    }
    const [item] = readOutput(events)
    expect(item).toMatchObject({ status: 'completed', advice: 'Sleep on it.' })
    expect(joinDeltas(events, item?.id)).toBe('Sleep on it.')
    for (const event of events.filter(one => isDelta(one) && one.item_id === item?.id))
      expect(event).toMatchObject({ content_index: 0, output_index: 0, logprobs: [] })
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i))
    expect(at.generations).toMatchObject([{ total_cost: 3n * TURN }])
    await expectBooks(at)
  })

  test('of several at once goes to the item of each', async () => {
    const at = await open(calling('advisor', 5), prompt => stream(['To ', prompt, '.']))
    const { raw } = await at.ask('responses', ADVISOR())
    const items = readOutput(raw).filter(({ type }) => type === 'gateway:advisor')
    expect(items.map(({ id }) => joinDeltas(raw, id))).toEqual(
      [0, 1, 2, 3, 4].map(i => `To Question ${i}.`),
    )
    expect(items.map(({ advice }) => advice)).toEqual(items.map(({ id }) => joinDeltas(raw, id)))
    await expectBooks(at)
  })

  test.each([
    ['chat', true],
    ['chat', false],
    ['messages', true],
    ['messages', false],
    ['responses', false],
  ] as const)('comes whole where there are no events for it: %s, streamed %p', async (door, is) => {
    const at = await open(calling('advisor'), () => stream(['Sleep ', 'on it.']))
    const { status, text, raw } = await at.ask(door, { ...ADVISOR(), stream: is })
    expect([status, text]).toEqual([200, 'Done.'])
    expect(at.heard.at(-1)?.results).toMatchObject([{ text: 'Sleep on it.' }])
    const shown = JSON.stringify(raw)
    if (door !== 'messages') expect(shown).toContain('Sleep on it.')
    expect(shown).not.toContain('"Sleep "')
    await expectBooks(at)
  })

  test('is one event less for each piece without the parameter', async () => {
    const at = await open(calling('advisor'), () => stream(['Sleep ', 'on it.']))
    const { raw } = await at.ask('responses', ADVISOR({ stream: false }))
    const item = readOutput(raw)[0]
    expect([item?.advice, joinDeltas(raw, item?.id)]).toEqual(['Sleep on it.', ''])
  })

  test('that breaks off is a failed item after what was shown, and charged', async () => {
    const broken = [sseHead(), delta('Sleep '), { end: 'rst' as const }]
    const at = await open(calling('advisor'), () => broken)
    const { raw, text } = await at.ask('responses', ADVISOR())
    const item = readOutput(raw)[0]
    expect([item?.status, item?.advice, joinDeltas(raw, item?.id)]).toEqual([
      ...['failed', undefined, 'Sleep '],
    ])
    expect(text).toBe('Done.')
    await expectBooks(at)
  })

  test('is cut where its result is, and what follows is not held', async () => {
    const at = await open(calling('advisor'), () => stream(Array(40).fill('x'.repeat(10_000))))
    const { raw } = await at.ask('responses', ADVISOR())
    const item = readOutput(raw)[0]
    const most = at.gateway.config.server_tools.max_result_characters
    expect(joinDeltas(raw, item?.id)).toHaveLength(most + 1)
    expect(joinDeltas(raw, item?.id)).toBe(String(item?.advice))
  })

  test('ends with its client, who pays for what was written', async () => {
    const at = await open(calling('advisor'), () => [sseHead(), delta('Sleep '), { wait: 'never' }])
    const client = new AbortController()
    const response = await at.send('responses', ADVISOR(), { signal: client.signal })
    const ended = new Promise(resolve => at.gateway.events.on('generation.finished', resolve))
    for await (const event of readEvents(response)) if (isDelta(event)) break
    client.abort()
    await ended
    expect(at.generations).toMatchObject([{ cancelled: true }])
    await expectBooks(at)
  })

  test.each([
    ['as one piece', ['Ask eve@example.com now']],
    ['in pieces', ['Ask ev', 'e@exa', 'mple.c', 'om now']],
    ['at its end', ['Ask eve@', 'example.com']],
  ])('passes content filters %s', async (_, pieces) => {
    const at = await open(calling('advisor'), () => stream(pieces))
    filterAnswers(at, 'redact')
    const { raw, text } = await at.ask('responses', ADVISOR())
    const item = readOutput(raw)[0]
    expect(joinDeltas(raw, item?.id)).toBe(pieces.join('').replace('eve@example.com', '[EMAIL]'))
    expect(item?.advice).toBe(joinDeltas(raw, item?.id))
    expect(JSON.stringify(raw)).not.toContain('example.com')
    expect(text).toBe('Done.')
  })

  test('that a filter blocks ends the call, and what blocks does not go out', async () => {
    const at = await open(calling('advisor'), () => stream(['Ask ', 'eve@exam', 'ple.com now']))
    filterAnswers(at, 'block')
    const { raw, error } = await at.ask('responses', ADVISOR())
    expect(error).toMatchObject({ message: expect.any(String) })
    expect(JSON.stringify(raw)).not.toContain('eve@')
    expect(raw.at(-1)?.type).toBe('response.failed')
    await expectBooks(at)
  })
})

describe('a panel that is asked', () => {
  const PANEL = ['acme/slow', 'acme/slower']
  const FUSION: Json = {
    ...{ stream: true, model: 'acme/openai-chat' },
    tools: [
      {
        type: 'gateway:fusion',
        parameters: { analysis_models: PANEL, tools: [], model: 'acme/gemini' },
      },
    ],
  }
  const ANALYSIS = JSON.stringify({
    ...{ consensus: ['Red'], contradictions: [], partial_coverage: [] },
    ...{ unique_insights: [], blind_spots: [] },
  })
  const outer: Scenario = request =>
    request.system.includes('You compare what several models')
      ? { answer: { text: ANALYSIS, finish: 'stop' } }
      : calling('fusion')(request)
  const readPanel = (events: Json[]) =>
    events.filter(({ type }) => String(type).startsWith('response.fusion_call'))

  test('shows what each model thinks and says while it does, and what came of it', async () => {
    let asked = 0
    const at = await open(outer, () => {
      asked += 1
      return asked === 1
        ? [
            ...[sseHead(), delta({ reasoning: 'Hm. ' }), delta('Boskoop'), { wait: 'read' }],
            ...[delta('.'), ending()],
          ]
        : [sseHead(), { wait: 'other' }, { end: 'rst' as const }]
    })
    const events: Json[] = []
    for await (const event of readEvents(await at.send('responses', FUSION))) {
      events.push(event)
      if (event.type === 'response.fusion_call.panel.delta') slow?.open('read')
      if (event.type === 'response.fusion_call.panel.completed') slow?.open('other')
    }
    const shown = readPanel(events)
    expect(shown.map(({ type }) => String(type).slice('response.fusion_call.'.length))).toEqual([
      ...['in_progress', 'panel.added', 'panel.added', 'panel.reasoning.delta', 'panel.delta'],
      ...['panel.delta', 'panel.completed', 'panel.failed', 'analysis.in_progress'],
      ...['analysis.completed', 'completed'],
    ])
    expect(
      new Set(shown.map(({ item_id, output_index }) => `${item_id} ${output_index}`)).size,
    ).toBe(1)
    expect(shown[6]).toMatchObject({ content: 'Boskoop.' })
    expect(shown[7]).toMatchObject({ status_code: expect.any(Number), error: expect.any(String) })
    expect(shown[8]).toMatchObject({ analyst_model: 'acme/gemini', judge_model: 'acme/gemini' })
    expect(new Set([shown[6]?.model, shown[7]?.model])).toEqual(new Set(PANEL))
    await expectBooks(at)
  })

  test.each(DOORS)('is asked as before where nothing shows it: %s', async door => {
    const at = await open(outer, () => stream(['Bos', 'koop.']))
    for (const is of [false, true]) {
      const { status, text, raw } = await at.ask(door, { ...FUSION, stream: is })
      expect([status, text]).toEqual([200, 'Done.'])
      const isShown = door === 'responses' && is
      expect(readPanel(raw).length > 0).toBe(isShown)
    }
    await expectBooks(at)
  })

  test('has what it says filtered, model by model', async () => {
    const at = await open(outer, () => stream(['eve@exam', 'ple.com']))
    filterAnswers(at, 'redact')
    const { raw } = await at.ask('responses', FUSION)
    const said = PANEL.map(model =>
      readPanel(raw)
        .filter(event => event.model === model && 'delta' in event)
        .map(event => event.delta)
        .join(''),
    )
    expect(said).toEqual(['[EMAIL]', '[EMAIL]'])
    expect(JSON.stringify(raw)).not.toContain('example.com')
  })
})

test('a model that says nothing but a finish shows nothing', async () => {
  const at = await open(calling('advisor'), () => [sseHead(), finish(), done(), chunkedEnd()])
  const { raw } = await at.ask('responses', ADVISOR())
  const item = readOutput(raw)[0]
  expect([item?.status, joinDeltas(raw, item?.id)]).toEqual(['failed', ''])
})
