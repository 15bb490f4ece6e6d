import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Filtering } from '../../../../src/engine/filtering.ts'
import { TextFilter } from '../../../../src/engine/kinds/text.ts'
import { kinds } from '../../../../src/engine/kinds.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { type FilterRule, openFilters } from '../../../../src/limits/filters.ts'
import { buildTextCall } from '../../../support/call.ts'

const EMAIL: Partial<FilterRule> = { slug: 'email' }
const SECRET: Partial<FilterRule> = { pattern: 'SECRET-\\d+' }

async function filterOf(rules: Partial<FilterRule>[], stream = true) {
  const filters = await openFilters(
    rules.map(rule => ({
      guardrail_id: 'g',
      scope: 'key',
      action: 'redact',
      output: true,
      ...rule,
    })),
  )
  const filtering = new Filtering(filters)
  if (!filters.outputFilters) throw new Error('Nothing looks at answers')
  return {
    filtering,
    filter: new TextFilter(buildTextCall({ stream }), filtering, filters.outputFilters),
  }
}

/** What comes out for these parts, one after the other, and what was found. */
async function through(parts: TextPart[], rules: Partial<FilterRule>[], stream = true) {
  const { filtering, filter } = await filterOf(rules, stream)
  const out: TextPart[][] = []
  for (const part of parts) out.push(await filter.read([part]))
  out.push(await filter.end())
  return { out, parts: out.flat(), findings: filtering.findings }
}

const said = (text: string, choice = 0): TextPart => ({ type: 'text-delta', choice, text })
const FINISH: TextPart = { type: 'finish', choice: 0, reason: 'stop', native: 'stop' }
const call = (index: number): TextPart => ({
  type: 'tool-call-start',
  choice: 0,
  index,
  id: `c${index}`,
  name: 'send',
})
const input = (text: string, index = 0): TextPart => ({
  type: 'tool-call-delta',
  choice: 0,
  index,
  input: text,
})
const thought = (
  text: string,
  details: (Record<string, unknown> & { type: string })[] = [],
): TextPart => ({
  type: 'reasoning-delta',
  choice: 0,
  text,
  details,
})

const words = (parts: TextPart[], choice = 0) =>
  parts
    .map(part => (part.type === 'text-delta' && part.choice === choice ? part.text : ''))
    .join('')

describe('a filtered answer', () => {
  test('releases at once what can be no match, and the rest once it is decided', async () => {
    const { out } = await through(
      [said('Hello. It is SEC'), said('RET-12'), said('34, bye'), FINISH],
      [SECRET],
    )
    expect(out).toEqual([
      [said('Hello. It is ')],
      [],
      [said('[REDACTED]'), said(', bye')],
      [FINISH],
      [],
    ])
  })

  test('keeps the provider’s blocks', async () => {
    const parts: TextPart[] = [
      { type: 'text-delta', choice: 0, text: 'a SECRET', block: 0 },
      { type: 'text-delta', choice: 0, text: '-1 b', block: 1 },
      FINISH,
    ]
    const { parts: left } = await through(parts, [SECRET])
    expect(left).toEqual([
      { type: 'text-delta', choice: 0, text: 'a ', block: 0 },
      { type: 'text-delta', choice: 0, text: '[REDACTED]', block: 0 },
      { type: 'text-delta', choice: 0, text: ' b', block: 1 },
      FINISH,
    ])
  })

  test('keeps the order of its parts: parts behind a text that waits wait too', async () => {
    const { out } = await through(
      [said('SEC'), call(0), input('{}'), said('OND'), FINISH],
      [SECRET],
    )
    expect(out).toEqual([
      [],
      [],
      [],
      [said('SEC'), call(0)],
      [input('{}'), said('OND'), FINISH],
      [],
    ])
  })

  test('is scanned across the parts in between', async () => {
    const { parts } = await through(
      [said('SECRET'), thought('Hm.'), said('-99 ok'), FINISH],
      [SECRET],
    )
    expect(words(parts)).toBe('[REDACTED] ok')
  })

  test('has each choice filtered by itself', async () => {
    const parts = [
      said('SEC', 0),
      said('SEC', 1),
      said('RET-1', 1),
      said('OND', 0),
      said('RET-2 ', 0),
      said('.', 1),
    ]
    const { parts: left } = await through(parts, [SECRET])
    expect([words(left, 0), words(left, 1)]).toEqual(['SECONDRET-2 ', '[REDACTED].'])
  })

  test('leaves its start, its counts and debug parts alone', async () => {
    const start: TextPart = {
      type: 'start',
      upstream_id: 'u',
      system_fingerprint: null,
      service_tier: null,
    }
    const { out } = await through(
      [start, said('SECRET'), { type: 'echo', provider: 'p', model: 'm', body: {} }],
      [SECRET],
    )
    expect(out).toEqual([
      [start],
      [],
      [{ type: 'echo', provider: 'p', model: 'm', body: {} }],
      [said('SECRET')],
    ])
  })

  test('repeats no filtered word in its logprobs', async () => {
    const parts: TextPart[] = [
      {
        type: 'text-delta',
        choice: 0,
        text: 'SECRET-1',
        logprobs: { content: [{ token: 'SECRET-1' }] },
      },
      FINISH,
    ]
    expect((await through(parts, [SECRET])).parts).toEqual([said('[REDACTED]'), FINISH])
    expect((await through(parts, [{ ...SECRET, action: 'flag' }])).parts).toEqual(parts)
  })

  test('that is only flagged waits for nothing', async () => {
    const parts = [
      said('SECRET'),
      said('-1'),
      call(0),
      input('{"a":"SECRET'),
      input('-2"}'),
      FINISH,
    ]
    const { out, findings } = await through(parts, [{ ...SECRET, action: 'flag' }])
    expect(out).toEqual([...parts.map(part => [part]), []])
    expect(findings).toEqual([
      { guardrail_id: 'g', filter: 'pattern', action: 'flag', where: 'output', count: 2 },
    ])
  })
})

describe('arguments of tools', () => {
  test('are valid JSON again, each call’s in its place', async () => {
    const parts = [
      call(0),
      input('{"to":"bob'),
      call(1),
      input('{"n":1', 1),
      input('@example.com"}'),
      input('}', 1),
      FINISH,
    ]
    const { out } = await through(parts, [EMAIL])
    expect(out).toEqual([
      [call(0)],
      [],
      [],
      [],
      [],
      [],
      [input('{"to":"[EMAIL]"}'), call(1), input('{"n":1}', 1), FINISH],
      [],
    ])
  })

  test('that were cut are redacted as they stand', async () => {
    const { parts } = await through([call(0), input('{"to":"bob@example.com')], [EMAIL])
    expect(parts).toEqual([call(0), input('{"to":"[EMAIL]')])
  })
})

describe('reasoning', () => {
  test('is redacted in both of its forms, and not signed any more', async () => {
    const detail = (more: object) => ({ type: 'reasoning.text', index: 0, ...more })
    const parts = [
      thought('Ask bob@', [detail({ text: 'Ask bob@' })]),
      thought('example.com now', [detail({ text: 'example.com now' })]),
      thought('', [detail({ signature: 'sig' })]),
      FINISH,
    ]
    const { parts: left } = await through(parts, [EMAIL])
    const texts = left.flatMap(part => (part.type === 'reasoning-delta' ? [part] : []))
    expect(texts.map(({ text }) => text).join('')).toBe('Ask [EMAIL] now')
    expect(texts.flatMap(({ details }) => details.map(({ text }) => text ?? '')).join('')).toBe(
      'Ask [EMAIL] now',
    )
    expect(JSON.stringify(left)).not.toContain('sig"')
  })

  test('without findings stays signed, and encrypted reasoning stays', async () => {
    const parts = [
      thought('All well', [{ type: 'reasoning.text', text: 'All well', signature: 'sig' }]),
      thought('', [{ type: 'reasoning.encrypted', data: 'Ym9iQGV4YW1wbGUuY29t' }]),
      FINISH,
    ]
    expect((await through(parts, [EMAIL])).parts).toEqual(parts)
  })
})

describe('other texts', () => {
  test('in refusals, transcripts, sources and provider blocks are redacted', async () => {
    const parts: TextPart[] = [
      { type: 'refusal-delta', choice: 0, text: 'Not bob@example.com' },
      { type: 'audio-delta', choice: 0, audio: { id: 'a', transcript: 'to bob@example.com' } },
      {
        type: 'annotation',
        choice: 0,
        annotation: { url_citation: { title: 'by bob@example.com' } },
        citation: null,
      },
      {
        type: 'other',
        choice: 0,
        dialect: 'messages',
        value: { type: 'result', content: [{ text: 'bob@example.com' }] },
      },
      FINISH,
    ]
    const { parts: left } = await through(parts, [EMAIL])
    expect(left.slice(0, 2)).toEqual([
      { type: 'refusal-delta', choice: 0, text: 'Not ' },
      { type: 'refusal-delta', choice: 0, text: '[EMAIL]' },
    ])
    expect(JSON.stringify(left.slice(2))).toBe(
      JSON.stringify(parts.slice(1)).replaceAll('bob@example.com', '[EMAIL]'),
    )
  })
})

describe('what is forbidden goes out in no field of an answer', () => {
  const WORD = 'falconcodename'
  const parts: TextPart[] = [
    { type: 'tool-call-start', choice: 0, index: 0, id: WORD, name: WORD, extra: { [WORD]: WORD } },
    { type: 'image', choice: 0, url: `https://example.com/${WORD}.png` },
    thought('', [
      { type: 'reasoning.encrypted', data: WORD, id: WORD, format: WORD, signature: WORD },
    ]),
    { type: 'audio-delta', choice: 0, audio: { id: WORD, transcript: WORD } },
    { type: 'annotation', choice: 0, annotation: { url: WORD } },
    { type: 'other', choice: 0, dialect: 'messages', value: { [WORD]: [WORD] } },
    { type: 'finish', choice: 0, reason: 'stop', native: WORD, sequence: WORD, extra: { x: WORD } },
    { type: 'start', upstream_id: WORD, system_fingerprint: WORD, service_tier: WORD },
  ]

  test.each(parts)('whole or streamed: %j', async part => {
    for (const stream of [true, false]) {
      const { out, findings } = await through([part], [{ pattern: WORD, label: 'X' }], stream)
      expect(JSON.stringify(out)).not.toContain(WORD)
      expect(out.flat()[0]).toMatchObject({ type: part.type })
      expect(findings[0]?.count).toBeGreaterThan(0)
    }
  })

  test.each(parts)('and is blocked: %j', async part => {
    const { filter } = await filterOf([{ pattern: WORD, action: 'block' }])
    const out = [...(await filter.read([part])), ...(await filter.end())]
    expect(filter.blocked?.status).toBe(403)
    expect(JSON.stringify(out.filter(({ type }) => type !== 'start'))).not.toContain(WORD)
  })
})

describe('an answer that is blocked', () => {
  const blocked = async (parts: TextPart[], rules: Partial<FilterRule>[], stream = true) => {
    const { filter, filtering } = await filterOf(rules, stream)
    const out: TextPart[] = []
    for (const part of parts) out.push(...(await filter.read([part])))
    out.push(...(await filter.end()))
    if (!filter.blocked) throw new Error('It was not blocked')
    const { status, type, message } = filter.blocked
    return { out, error: [status, type, message], findings: filtering.findings }
  }
  const EMAIL_BLOCK = { ...EMAIL, action: 'block' as const }

  test('ends with 403, and nothing of the match has gone out', async () => {
    const { out, error, findings } = await blocked(
      [said('Write to bob@exam'), said('ple.com or'), said(' not')],
      [EMAIL_BLOCK],
    )
    expect(out).toEqual([said('Write to ')])
    expect(error).toEqual([
      403,
      'permission_denied',
      'Response blocked by content filter: Email address',
    ])
    expect(findings).toEqual([
      { guardrail_id: 'g', filter: 'email', action: 'block', where: 'output', count: 1 },
    ])
  })

  test('gives the same up to the match, however it is cut', async () => {
    const text = 'Hello. Write to bob@example.com, now'
    for (const pieces of [[text], text.split(''), [text.slice(0, 18), text.slice(18)]])
      expect(
        words((await blocked([...pieces.map(piece => said(piece)), FINISH], [EMAIL_BLOCK])).out),
      ).toBe('Hello. Write to ')
  })

  test('and not streamed gives nothing', async () => {
    expect(
      (await blocked([said('Hello. '), said('bob@example.com'), FINISH], [EMAIL_BLOCK], false)).out,
    ).toEqual([])
  })

  test('gives nothing of what follows the match, in text or in a source', async () => {
    const source: TextPart = {
      type: 'annotation',
      choice: 0,
      annotation: { title: 'bob@example.com' },
    }
    expect(
      (await blocked([said('Hi. '), source, said('more '), FINISH], [EMAIL_BLOCK])).out,
    ).toEqual([said('Hi. ')])
  })

  test('is blocked for a match in arguments of tools', async () => {
    expect(
      (await blocked([call(0), input('{"a":"bob\\u0040example.com"}'), FINISH], [EMAIL_BLOCK])).out,
    ).toEqual([call(0)])
  })
})

describe('a streamed answer gives the same as a whole one', () => {
  test('whatever its texts, reasoning and calls, and however it is cut', async () => {
    const piece = fc.constantFrom(
      'Hello ',
      'bob@',
      'example',
      '.com',
      ' SECRET-',
      '12',
      '3',
      ' ',
      '"',
      '\\',
      '4111 1111 ',
      '1111 1111',
      '\n',
      'x',
    )
    const lane = fc.constantFrom('text', 'thought', 'input')
    const rules = [
      EMAIL,
      SECRET,
      { slug: 'credit-card' as const },
      { pattern: '"[^"]*"', label: 'q' },
    ]
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(lane, piece), { maxLength: 25 }), async pieces => {
        const cutParts = [call(0), ...pieces.map(([lane, text]) => partOf(lane, text)), FINISH]
        const joined = (wanted: string) =>
          pieces.map(([lane, text]) => (lane === wanted ? text : '')).join('')
        const wholeParts = [
          call(0),
          partOf('thought', joined('thought')),
          partOf('text', joined('text')),
          partOf('input', joined('input')),
          FINISH,
        ]
        const [streamed, whole] = [
          await through(cutParts, rules),
          await through(wholeParts, rules, false),
        ]
        expect(summary(streamed.parts)).toEqual(summary(whole.parts))
        expect(streamed.findings.toSorted(byFilter)).toEqual(whole.findings.toSorted(byFilter))
      }),
      { numRuns: 400 },
    )
  })
})

const byFilter = (a: { filter: string; action: string }, b: { filter: string; action: string }) =>
  a.filter < b.filter ? -1 : a.filter > b.filter ? 1 : 0

const partOf = (lane: string, text: string): TextPart =>
  lane === 'text' ? said(text) : lane === 'thought' ? thought(text) : input(text)

const summary = (parts: TextPart[]) => ({
  text: words(parts),
  thought: parts.map(part => (part.type === 'reasoning-delta' ? part.text : '')).join(''),
  input: parts.map(part => (part.type === 'tool-call-delta' ? part.input : '')).join(''),
})

test('a choice among several tools names them as they are named by then', async () => {
  const named = ['find_ada', 'find_bob'].map(name => ({ type: 'function', function: { name } }))
  const call = buildTextCall({
    tools: named.map(({ function: { name } }) => ({ type: 'function', name })),
    params: {
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: named },
      } as never,
    },
  })
  const { tools, params } = await kinds.text.filtering.rewriteTexts(call, async ({ pieces }) =>
    pieces.map(piece => piece.replaceAll('ada', 'x').replaceAll('auto', 'y')),
  )
  expect(tools.map(tool => tool.type === 'function' && tool.name)).toEqual(['find_x', 'find_bob'])
  expect(params.tool_choice as object).toEqual({
    type: 'allowed_tools',
    allowed_tools: {
      mode: 'auto',
      tools: ['find_x', 'find_bob'].map(name => ({ type: 'function', function: { name } })),
    },
  })
})

test('what a provider’s own tool was asked and has answered is read', async () => {
  const work = {
    type: 'reasoning.server_tool_call',
    tool_name: 'code_execution',
    tool_call_id: 'c',
  }
  const detail = { ...work, arguments: '{"code":"ada"}', result: '{"output":"ada"}' }
  const call = buildTextCall({
    messages: [
      {
        role: 'assistant',
        blocks: [{ type: 'reasoning', text: null, details: [detail] }],
      } as never,
    ],
  })
  const rewritten = await kinds.text.filtering.rewriteTexts(call, async ({ pieces }) =>
    pieces.map(piece => piece.replaceAll('ada', 'x')),
  )
  expect(rewritten.messages[0]?.blocks[0]).toMatchObject({
    details: [{ ...work, arguments: '{"code":"x"}', result: '{"output":"x"}' }],
  })
})
