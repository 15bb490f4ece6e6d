import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { toPrintable } from '../../../src/base/printable.ts'
import { computeInterval } from '../../../src/cli/tui/app.tsx'
import { createCall, Live } from '../../../src/cli/tui/live.ts'
import { parseLimit } from '../../../src/cli/tui/models/keys.ts'
import { listMoney, parseAmount, renderMoney } from '../../../src/cli/tui/models/money.ts'
import {
  drawBar,
  drawPlot,
  drawSparkline,
  fit,
  fitId,
  formatCount,
  formatTime,
  formatUsd,
  type Line,
  measure,
  wrap,
} from '../../../src/cli/tui/text.ts'
import { scroll } from '../../../src/cli/tui/use-list.ts'
import { listCalls, renderCalls } from '../../../src/cli/tui/views/calls.tsx'
import { listEndpoints, renderEndpoints } from '../../../src/cli/tui/views/endpoints.tsx'
import { readBuiltIn } from '../../../src/resources/models/built-in.ts'
import { generateText } from '../../support/texts.ts'
import { buildCallEntries, entry } from '../../support/tui.tsx'

describe('a text', () => {
  test('is exactly as wide as its cell, and harmless, whatever is in it', () => {
    fc.assert(
      fc.property(generateText(), fc.integer({ min: 0, max: 40 }), (text, width) => {
        const fitted = fit(text, width)
        expect(measure(fitted)).toBe(width)
        expect(toPrintable(fitted)).toBe(fitted)
        expect(measure(fitId(text, width))).toBe(width)
      }),
    )
    expect(fit('漢字漢字', 5)).toBe('漢字…')
    expect(fitId('acme/small-large', 12)).toBe('ac…all-large')
    expect(fitId('漢字漢字漢字', 9)).toBe('漢…字漢字')
    expect(fit('abc', 5, 'right')).toBe('  abc')
    expect(wrap('one two three', 7)).toEqual(['one two', 'three'])
  })

  test('is short for any number', () => {
    expect([0, 9.5, 950, 12_345, 4_500_000, 2e9].map(formatCount)).toEqual([
      ...['0', '9.5', '950', '12.3k', '4.5M', '2.0G'],
    ])
    expect([null, 950, 12_300, 245_000].map(formatTime)).toEqual(['-', '950ms', '12.3s', '4m05'])
    expect([null, 0, 0.0000097, 0.00002, 0.0123, 3.4, 1_234].map(formatUsd)).toEqual([
      ...['-', '$0', '$9.7e-6', '$0.00002', '$0.012', '$3.40', '$1.2k'],
    ])
    expect([-0.0123, -2.5, -1_234].map(formatUsd)).toEqual(['-$0.012', '-$2.50', '-$1.2k'])
  })

  test.each([
    [10, 5, 'Credits: $5.00 spent of $10.00 paid in  █████░░░░░ 50%'],
    [0, 5, 'Credits: $5.00 spent of $0 paid in'],
    [-2.5, 1.68, 'Credits: $1.68 spent of -$2.50 paid in'],
  ])('says what was spent of credits of %p', (total_credits, total_usage, said) => {
    const credits = { total_credits, total_usage }
    const money = { credits, keys: [], budgets: [], groups: {} }
    const [line] = renderMoney(money, [], { width: 60, selected: 0 })
    expect(line?.map(({ text }) => text.trimEnd())).toEqual([said])
  })
})

describe('a drawing', () => {
  test('reaches the top at the highest value', () => {
    expect(drawBar(0.5, 4)).toBe('██░░')
    expect(drawBar(7, 4)).toBe('████')
    expect(drawSparkline([0, 1, 8], 4)).toBe('  ▁█')
    expect(drawPlot([0, 0, 4, 8], 2, 2)).toEqual(['⠀⢸', '⠀⣿'])
    expect(drawPlot([], 2, 1)).toEqual(['⠀⠀'])
  })
})

test('a list scrolls as little as shows the selected row, within its bounds', () => {
  fc.assert(
    fc.property(
      fc.nat(50),
      fc.nat(50),
      fc.nat(50),
      fc.integer({ min: 1, max: 20 }),
      (selected, top, count, height) => {
        const position = scroll({ selected, top }, count, height)
        expect(position.selected).toBeLessThanOrEqual(Math.max(0, count - 1))
        expect(position.top).toBeLessThanOrEqual(position.selected)
        expect(position.selected).toBeLessThan(position.top + height)
        expect(position.top).toBeLessThanOrEqual(Math.max(0, count - height))
      },
    ),
  )
})

describe('any two ids of the catalogue differ on 80 columns', () => {
  const { rows } = readBuiltIn()
  const options = { width: 80, selected: -1, now: 0 }
  const models = [...rows.keys()]
  const count = (lines: Line[]) =>
    new Set(lines.map(line => line.map(({ text }) => text).join(''))).size

  test('among the calls', () => {
    const calls = models.map(model => ({ ...createCall('gen-1', ''), model }))
    // The headings are one more.
    expect(count(renderCalls(calls, options))).toBe(models.length + 1)
  })

  test('among the endpoints', () => {
    const ids = new Set(
      [...rows.values()].flatMap(({ id, endpoints }) =>
        endpoints.map(({ provider, model }) => `${id} ${provider}/${model}`),
      ),
    )
    const live = new Live()
    live.apply(
      entry('state', {
        ...{ milliseconds: 1, running_calls: 0 },
        endpoints: [...ids].map(endpoint => ({
          ...{ endpoint, provider: '', model: '', cooldown: null, is_probing: false },
          ...{ succeeded: 0, failed: 0, latency_p50: null, latency_p95: null },
          throughput_p50: null,
        })),
      }),
    )
    expect(count(renderEndpoints(listEndpoints(live, ''), options))).toBe(ids.size + 1)
  })

  test('among those who spend', () => {
    const spending = { today: 0, week: 0, month: 0 }
    const groups = { model: models.map(name => ({ name, ...spending })) }
    const money = { credits: null, keys: [], budgets: [], groups }
    expect(count(renderMoney(money, listMoney(money, ''), options))).toBe(models.length + 2)
  })
})

test('what costs more is drawn less often', () => {
  expect([0, 7, 17.5, 500].map(computeInterval).map(Math.round)).toEqual([250, 250, 500, 2_000])
})

test('limits are read as people type them', () => {
  expect(['', 'none', '5', '$0.50', '-1', 'x', 'Infinity'].map(parseLimit)).toEqual([
    ...[null, null, 5, 0.5, undefined, undefined, undefined],
  ])
})

test('amounts are read as people type them', () => {
  expect(['50', '$2.5', '-$1', '-3', '0', '', 'x', '1e999'].map(parseAmount)).toEqual([
    ...[50, 2.5, -1, -3, undefined, undefined, undefined, undefined],
  ])
})

describe('what the feed has told', () => {
  test('is bounded, and the calls that run stay', () => {
    const live = new Live()
    live.apply(entry('call.opened', { id: 'runs', models: ['m'] }))
    for (let i = 0; i < 6_000; i++) for (const one of buildCallEntries(`gen-${i}`)) live.apply(one)
    for (let i = 0; i < 400; i++)
      live.apply(entry('state', { endpoints: [], finished: 0, milliseconds: 1, running_calls: 1 }))
    expect(live.calls.size).toBe(5_000)
    expect(live.calls.has('runs')).toBe(true)
    live.apply(entry('state', { endpoints: [], finished: 0, milliseconds: 1, running_calls: 0 }))
    expect(live.calls.has('runs')).toBe(false)
    expect(live.seconds.length).toBe(300)
  })

  test('shows refusals, and calls whose beginning it has not told', () => {
    const live = new Live()
    live.apply(entry('call.refused', { id: 'r', status: 402, model: 'm', message: 'No credit' }))
    live.apply(entry('call.opened', { id: 'gen-1', request_id: 'mine', models: ['m'] }))
    live.apply(entry('call.refused', { id: 'mine', status: 403, model: 'm', message: 'No' }))
    live.apply(buildCallEntries('late').at(-1) as never)
    live.apply(
      entry('attempt.started', { id: 'unknown', endpoint: 'e', provider: 'p', model: 'm' }),
    )
    expect([...live.calls.values()]).toMatchObject([
      { id: 'r', state: 'refused', status: 402, error: 'No credit' },
      { id: 'gen-1', state: 'refused', status: 403 },
      { id: 'late', state: 'done', status: 200, provider: 'solid' },
    ])
  })

  test('is not drawn again for a second that is as idle as the one before', () => {
    const live = new Live()
    const idle = { endpoints: [], running_calls: 0, finished: 0, refused: 0 }
    const versions = [idle, idle, { ...idle, finished: 1 }, idle, idle].map(state => {
      live.apply(entry('state', state))
      return live.version
    })
    expect(versions).toEqual([1, 1, 2, 3, 3])
  })

  test('is searched for every word', () => {
    const call = { ...createCall('gen-1', ''), model: 'acme/small', key: 'Laptop' }
    const count = (filter: string) =>
      listCalls([call], { filter, sort: 'time', isReversed: false }, 0).length
    expect([count(''), count('LAP acme'), count('lap other')]).toEqual([1, 1, 0])
  })
})

describe('a feed of whatever is there', () => {
  test('leaves the screen usable: what is no entry is passed over', () => {
    const live = new Live()
    const odd = [
      ...['', 'null', '[]', '{', '{"type":"state"}', '{"type":5,"at":"x"}'],
      ...[
        '{"type":"state","at":"2026-03-04T05:06:07Z"}',
        '{"type":"call.opened","at":"x","id":"a"}',
      ],
      '{"type":"something.new","at":"2026-03-04T05:06:07Z","id":"b"}',
      '{"type":"call.planned","at":"x","id":"gen-1","candidates":7}',
    ]
    live.applyAll(odd)
    live.applyAll(buildCallEntries('gen-1').map(one => JSON.stringify(one)))
    expect([...live.calls.keys()]).toEqual(['gen-1'])
    expect(live.alarms.map(({ text }) => text)).toEqual(
      expect.arrayContaining(['an entry was not understood: state']),
    )
    expect(fit(5 as never, 3)).toBe('5  ')
  })

  test('of a second of five thousand calls is bounded, and its newest calls are there', () => {
    const live = new Live()
    const one = buildCallEntries('ID').map(entry => JSON.stringify(entry))
    for (let i = 0; i < 5_500; i++) live.applyAll(one.map(json => json.replace('"ID"', `"g${i}"`)))
    expect(live.calls.size).toBe(5_000)
    const shown = listCalls(live.calls.values(), { filter: '', sort: 'time', isReversed: false }, 0)
    expect(shown).toHaveLength(5_000)
    expect(live.calls.has('g5499')).toBe(true)
  })
})
