import { describe, expect, test } from 'bun:test'
import { KEYS } from '../../../src/cli/tui/keys.ts'
import { NOUNS, type PastExplanation } from '../../../src/cli/tui/source.ts'
import { measure } from '../../../src/cli/tui/text.ts'
import {
  buildCallEntries,
  buildKey,
  ENTER,
  ESCAPE,
  entry,
  FakeSource,
  openScreen,
} from '../../support/tui.tsx'

const STATE = entry('state', {
  ...{ running_calls: 3, draining: false, memory_bytes: 100 * 1024 * 1024, milliseconds: 1_000 },
  ...{ finished: 20, failed: 1, refused: 2, tokens_prompt: 100, tokens_completion: 800, cost: 0.5 },
  ...{ first_part_p50: 120, first_part_p95: 480 },
  queues: { calls: 4, records: 5, deliveries: 1_200 },
  endpoints: ['flaky', 'solid'].map(provider => ({
    ...{ endpoint: `acme/small ${provider}/m`, provider, model: 'acme/small', cooldown: null },
    ...{ is_probing: false, succeeded: 9, failed: provider === 'flaky' ? 3 : 0 },
    ...{ latency_p50: 100, latency_p95: 400, throughput_p50: 55 },
  })),
})

const EXPLANATION = {
  explanation: {
    error: null,
    endpoints: [
      {
        ...{ provider: 'solid', model: 'acme/small', probability: 1, session: true },
        ...{ pricing: { prompt: '0.00000015', completion: '0.0000006' }, is_byok: false },
        ...{ estimated_cost: { usd: 0.004 }, cooldown: null },
      },
    ],
    dropped: [
      {
        provider: 'dear',
        model: 'acme/small',
        excluded_by: 'max_price',
        reason: 'too dear, still',
      },
      { provider: 'none', model: 'acme/small', excluded_by: 'not_configured', reason: 'no key' },
    ],
    policy: {
      guardrails: [{ id: 'g', name: 'Strict', scope: 'key' }],
      limits: [{ account: 'key x', period: 'daily', limit_usd: 2, remaining_usd: 1, pays: 'yes' }],
      filters: [{ filter: 'email', action: 'redact', looks_at: ['prompt'], found: 1 }],
    },
  },
  unknown: ['Its texts are not kept: a filler of 10 tokens stands for them.'],
} as unknown as PastExplanation

function openFed(...entries: Parameters<FakeSource['tell']>) {
  const source = new FakeSource()
  source.tell(...entries)
  return { source, screen: openScreen(source) }
}

describe('the calls', () => {
  test('show a call as it runs, and then what it came to', async () => {
    const all = buildCallEntries('gen-1')
    const source = new FakeSource()
    source.tell(...all.slice(0, 6))
    using screen = openScreen(source, { columns: 160, rows: 24 })
    const running = await screen.see('1 running')
    expect(running).toMatch(/05:06:07 +running +acme\/small.* +solid +2 +20ms/)
    source.tell(entry('call.progress', { id: 'gen-1', tokens: 33, cost: 0.002 }))
    await screen.see(' 33 ')
    source.tell(...all.slice(6))
    const done = await screen.see(' 200 ')
    expect(done).toMatch(/200 +acme\/small.* +solid +2 +20ms +1\.0s +50 +50 +\$0\.012 +laptop/)
  })

  test('are filtered as a text is typed, sorted, reversed, and paused', async () => {
    const { source, screen } = openFed(
      ...buildCallEntries('gen-1', { model: 'acme/alpha', key: 'one' }),
      ...buildCallEntries('gen-2', { model: 'acme/beta', key: 'two' }),
    )
    await screen.see('2 shown')
    await screen.type('/')
    await screen.see('Filter:')
    await screen.type('be\r')
    await screen.see('filter: be')
    await screen.type('/')
    await screen.see('Filter: be')
    await screen.type('t')
    expect(await screen.see('1 shown')).not.toContain('acme/alpha')
    await screen.type('\u007f', ENTER)
    await screen.see('filter: be')
    await screen.type(ESCAPE)
    await screen.see('2 shown')
    for (const sort of ['cost', 'first part', 'speed', 'status', 'model']) {
      await screen.type('s')
      await screen.see(`by ${sort}`)
    }
    expect((await screen.see('by model')).indexOf('beta')).toBeLessThan(
      screen.read().indexOf('alpha'),
    )
    await screen.type('r')
    const reversed = await screen.see('by model, reversed')
    expect(reversed.indexOf('alpha')).toBeLessThan(reversed.indexOf('beta'))
    await screen.type('p')
    await screen.see('PAUSED')
    source.tell(...buildCallEntries('gen-3', { model: 'acme/gamma' }))
    await screen.type('?')
    await screen.see('ctrl-u')
    await screen.type('x')
    expect(await screen.see('PAUSED')).not.toContain('gamma')
    await screen.type(' ')
    await screen.see('acme/gamma')
    screen[Symbol.dispose]()
  })

  test('are moved in by arrows and by vim’s keys, and one of them opened', async () => {
    const { source, screen } = openFed(
      ...Array.from({ length: 60 }, (_, i) =>
        buildCallEntries(`gen-${i}`, { model: `m/${i}` }),
      ).flat(),
    )
    await screen.see('60 shown')
    const open = async (...keys: string[]) => {
      await screen.type(...keys, ENTER)
      await screen.see('Plan')
      const id = /gen-\d+/.exec(screen.read())?.[0]
      await screen.type('h')
      await screen.see('60 shown')
      return id
    }
    const first = await open('g')
    expect(await open('j', 'k')).toBe(first as string)
    expect(await open('\u001b[B', '\u001b[A')).toBe(first as string)
    const last = await open('G')
    expect(last).not.toBe(first as string)
    expect(await open('\u001b[6~')).toBe(last as string)
    expect(await open('\u0015', '\u0004')).toBe(last as string)
    expect(await open('g')).toBe(first as string)
    expect(source.asked).toContainEqual(['getCall', first])
    screen[Symbol.dispose]()
  })

  test('show all of one: plan, attempts, steps, filters, and every field of its record', async () => {
    const source = new FakeSource()
    source.record = {
      ...{ request_id: 'req-7', total_cost: 0.0123, session_id: 'session-9' },
      provider_responses: [
        {
          ...{ provider_name: 'Flaky', model_permaslug: 'm', endpoint_id: 'acme/small flaky/m' },
          ...{ is_byok: false, latency: 12, status: 503, request_id: 'up-1' },
          error: { type: 'provider_overloaded', code: 'busy', message: 'Too many of you' },
        },
      ],
      steps: [
        {
          ...{ type: 'tool', name: 'web_search', function: 'search', provider_name: null },
          ...{ native_tokens_prompt: 0, native_tokens_completion: 0, cost: 0.001, latency: 5 },
          ...{ finish_reason: null, is_error: false, error_type: null },
        },
      ],
      content_filters: [
        { guardrail_id: 'g-1', filter: 'email', action: 'redact', where: 'input', count: 2 },
      ],
    }
    source.explanation = EXPLANATION
    source.tell(...buildCallEntries('gen-1'))
    using screen = openScreen(source, { columns: 100, rows: 80 })
    await screen.see('1 shown')
    await screen.type(ENTER)
    await screen.see('The same request now')
    const shown = await screen.see('session-9')
    for (const text of [
      ...['75%  $0.15/$0.6', '25%', 'dropped: dear acme/small: max_price: too dear'],
      ...['1. acme/small flaky/m  503  12ms  provider_overloaded busy', 'Too many of you'],
      ...['10 tokens in, 2 of them cached; 50 out, 7 of them reasoning'],
      ...['$0.012, by the provider’s own counts; the provider took $0.010'],
      ...['100%  $0.15/$0.6        acme/small solid  up to $0.0040, the session is here'],
      ...['dropped: dear acme/small: max_price: too dear, still', 'dropped: 1 others'],
      ...['guardrail of the key: Strict', 'limit of key x (daily): $1.00 left of $2.00'],
      ...['filter email: redact in the prompt, found 1', 'Its texts are not kept'],
      ...['1. tool web_search search', 'redact email in the input, 2 times', 'req-7'],
    ])
      expect(shown).toContain(text)
  })
})

describe('a past call', () => {
  test('that nothing was told of is shown with its attempts, and why it cannot go again', async () => {
    const source = new FakeSource()
    source.tell(...buildCallEntries('gen-7').slice(-1))
    using screen = openScreen(source, { columns: 120, rows: 60 })
    expect(await screen.see('1 shown')).toMatch(/05:06:05 +200 +acme\/small +solid +2 /)
    await screen.type(ENTER)
    await screen.see('This call cannot be asked again')
    expect(source.asked).toContainEqual(['explainCall', 'gen-7'])
  })
})

describe('the endpoints', () => {
  test('show circuits and traffic, rest for as long as is typed, and wake', async () => {
    const { source, screen } = openFed(...buildCallEntries('gen-1'), STATE)
    await screen.type('2')
    expect(await screen.see('2 endpoints')).toMatch(
      /acme\/small +flaky\/m +well.* +25% +100ms +400ms/,
    )
    source.tell(
      entry('circuit.opened', {
        endpoint: 'acme/small flaky/m',
        reason: 'failures',
        seconds_left: 9,
      }),
    )
    await screen.see('rests 9s')
    await screen.type('z')
    await screen.see('how many minutes?: 10')
    await screen.type('\u007f', '\u007f', '5', ENTER)
    await screen.see('rests for 5 min')
    await screen.type('w')
    await screen.see('[y/N]')
    await screen.type('n')
    await screen.type('w')
    await screen.see('[y/N]')
    await screen.type('y')
    await screen.see('is awake')
    await screen.type('z')
    await screen.see('how many minutes?')
    await screen.type('x', ENTER)
    await screen.see('Expected minutes above 0')
    expect(source.asked).toEqual([
      ['rest', 'acme/small flaky/m', 300],
      ['wake', 'acme/small flaky/m'],
    ])
    screen[Symbol.dispose]()
  })
})

describe('money', () => {
  test('shows credits, and who spends, those near their limit first', async () => {
    const { source, screen } = openFed()
    await screen.type('3')
    const shown = await screen.see('$25.00 spent of $100.00')
    expect(shown.indexOf('laptop')).toBeLessThan(shown.indexOf('acme/small'))
    expect(shown).toMatch(/key +laptop +\$0\.50 +\$1\.00 +\$2\.00 +\$10\.00 +██████░ 90%/)
    expect(shown).toMatch(/budget +Research daily .*\$9\.00 +███████ 100%/)
    await screen.type('a')
    await screen.see('Credits to add in USD')
    await screen.type('n', 'o', ENTER)
    await screen.see('Expected an amount such as 50')
    await screen.type('a')
    await screen.see('Credits to add in USD')
    await screen.type('5', '0', ENTER)
    await screen.see('A note about them')
    await screen.type('M', 'a', 'y', ENTER)
    await screen.see('Add $50.00 to the credits? [y/N]')
    await screen.type('y')
    await screen.see('$50.00 is added')
    expect(source.asked).toEqual([
      { noun: 'credits', verb: 'create', id: '', input: { amount: 50, note: 'May' } },
    ])
    await screen.type('/')
    await screen.see('Filter:')
    await screen.type('m', 'o', 'd', 'e', 'l')
    await screen.see('laptop', false)
    screen[Symbol.dispose]()
  })
})

describe('keys', () => {
  test('are created and shown once, disabled, and given another limit, each after a question', async () => {
    const { source, screen } = openFed()
    await screen.type('4')
    await screen.see('2 keys')
    await screen.type('n')
    await screen.see('Name of the new key')
    await screen.type('c', 'i', ENTER)
    await screen.see('Its limit in USD')
    await screen.type('5', ENTER)
    await screen.see('Create the key ci with a limit of $5.00? [y/N]')
    await screen.type('y')
    await screen.see('gw-v1-secret')
    await screen.type('y')
    await screen.see('Copied')
    expect(screen.stdout.frames.join('')).toContain(`]52;c;${btoa('gw-v1-secret')}`)
    await screen.type(ENTER)
    await screen.see('2 keys')
    await screen.type('d')
    await screen.see('Disable laptop? [y/N]')
    await screen.type('y')
    await screen.see('laptop is disabled')
    await screen.type('m')
    await screen.see('New limit of laptop in USD')
    await screen.type('\u007f', '\u007f', '-', '1', ENTER)
    await screen.see('Expected an amount')
    await screen.type('m')
    await screen.see('New limit of laptop in USD')
    await screen.type('0', ENTER)
    await screen.see('from $10.00 to $100.00? [y/N]')
    await screen.type('y')
    await screen.see('is changed')
    await screen.type(ENTER)
    await screen.see('include_byok_in_limit')
    await screen.type(ESCAPE)
    await screen.see('2 keys')
    expect(source.asked).toEqual([
      { noun: 'keys', verb: 'create', id: '', input: { name: 'ci', limit: 5 } },
      {
        noun: 'keys',
        verb: 'update',
        id: 'hash-laptop',
        workspace_id: 'w',
        input: { disabled: true },
      },
      { noun: 'keys', verb: 'update', id: 'hash-laptop', workspace_id: 'w', input: { limit: 100 } },
    ])
    screen[Symbol.dispose]()
  })
})

describe('the overview', () => {
  test('shows numbers, plots and alarms', async () => {
    const { screen } = openFed(
      ...[STATE, STATE],
      entry('alarm', { name: 'store.failing', message: 'Records cannot be written' }),
      entry('limit.near', { account: 'key', name: 'laptop', period: 'daily', share: 0.85 }),
      entry('lost', { count: 7 }),
    )
    await screen.type('5')
    const shown = await screen.see('Alarms (3)')
    for (const text of [
      ...['waiting: 4 calls for a turn', '5 records', '1.2k for destinations'],
      ...['3 in flight', '20 calls/s', '6 errors in a minute', '100 MiB', 'p50 120ms', 'p95 480ms'],
      ...[
        '800 tokens/s',
        'Records cannot be written',
        'key laptop has spent or set aside 85% of its daily limit',
      ],
      ...['7 entries were lost', '⣿'],
    ])
      expect(shown).toContain(text)
    screen[Symbol.dispose]()
  })
})

describe('the other nouns', () => {
  test('have a list each, and every field of one; what fails is a sentence', async () => {
    const { source, screen } = openFed()
    source.rows = {
      workspaces: [{ id: 'w-1', name: 'Research', slug: 'research', extra: { a: 1 } }],
    }
    await screen.type('6')
    for (const noun of NOUNS) await screen.see(noun)
    await screen.type(ENTER)
    expect(await screen.see('workspaces: 1')).toMatch(/NAME +SLUG +ID.*\n.*Research +research +w-1/)
    await screen.type(ENTER)
    await screen.see('{"a":1}')
    await screen.type(ESCAPE)
    await screen.see('workspaces: 1')
    await screen.type(ESCAPE)
    await screen.see('What else there is')
    await screen.type('j', ENTER)
    await screen.see('members cannot be listed')
    screen[Symbol.dispose]()
  })
})

describe('what a noun lists is changed', () => {
  const ROW = { id: 'r-1', name: 'Strict', slug: 'strict', workspace_id: 'w', disabled: false }
  async function openNoun(noun: (typeof NOUNS)[number], row: object = ROW) {
    const { source, screen } = openFed()
    source.rows = {
      ...{
        members: [{ id: 'u-1', email: 'ada@x.org' }],
        workspaces: [{ id: 'w-1', name: 'Team' }],
      },
      [noun]: [row],
    }
    await screen.type('6')
    await screen.see('What else there is')
    await screen.type(...Array(NOUNS.indexOf(noun)).fill('j'), ENTER)
    await screen.see(`${noun}: 1`)
    return { source, screen }
  }
  /** Types a key and its answers, each after its question, and says yes to the last. */
  async function change(
    screen: ReturnType<typeof openScreen>,
    key: string,
    answers: [question: string, answer: string][],
    confirmed: string,
  ) {
    await screen.type(key)
    for (const [question, answer] of answers) {
      await screen.see(question)
      await screen.type(...Array(12).fill('\u007f'), `${answer}\r`)
    }
    await screen.see(`${confirmed} [y/N]`)
    await screen.type('y')
  }

  test.each([
    [
      'guardrails',
      'n',
      [['Name of the new', 'Lax']],
      'until t assigns it',
      'create',
      '',
      { name: 'Lax' },
    ],
    [
      'guardrails',
      'e',
      [['New name of Strict', 'Hard']],
      'Rename Strict to Hard?',
      'update',
      'r-1',
      { name: 'Hard' },
    ],
    [
      'guardrails',
      'm',
      [
        ['The budget of Strict', '5'],
        ['For which time', 'daily'],
      ],
      'from none to $5.00 daily?',
      'update',
      'r-1',
      { limit_usd: 5, reset_interval: 'daily' },
    ],
    ['guardrails', 'x', [], 'Delete Strict? This cannot be undone', 'delete', 'r-1', {}],
    [
      'guardrails',
      't',
      [['assign Strict to which', 'lap']],
      'Assign Strict to laptop?',
      'assignKeys',
      'r-1',
      { key_hashes: ['hash-laptop'] },
    ],
    [
      'guardrails',
      'u',
      [['unassign Strict from which', 'ada@x.org']],
      'Take Strict from ada@x.org?',
      'unassignMembers',
      'r-1',
      { member_user_ids: ['u-1'] },
    ],
    ['byok', 'd', [], 'Disable Strict?', 'update', 'r-1', { disabled: true }],
    [
      'byok',
      'n',
      [
        ['The provider of', 'openai'],
        ['Its name', 'own'],
        ['key', 'sk-1234'],
      ],
      'Use this key of 7 characters at openai?',
      'create',
      '',
      { provider: 'openai', name: 'own', key: 'sk-1234' },
    ],
    [
      'byok',
      't',
      [['For which keys alone', 'laptop,batch']],
      'Use Strict for laptop, batch alone?',
      'update',
      'r-1',
      { allowed_api_key_hashes: ['hash-laptop', 'hash-batch'] },
    ],
    [
      'presets',
      'x',
      [],
      'Archive Strict? Its versions stay',
      'update',
      'strict',
      { status: 'archived' },
    ],
    [
      'presets',
      'n',
      [
        ['Slug of the preset', 'terse'],
        ['Its model', 'm/x'],
      ],
      'Save the preset terse with m/x?',
      'create',
      'terse',
      { model: 'm/x' },
    ],
    [
      'destinations',
      'n',
      [
        ['Name of', 'hook'],
        ['Its type', 'webhook'],
        ['Its config', '{"url":"https://x"}'],
      ],
      'Tell calls to hook (webhook)?',
      'create',
      '',
      { name: 'hook', type: 'webhook', config: { url: 'https://x' } },
    ],
    [
      'destinations',
      'u',
      [],
      'Use Strict for all keys?',
      'update',
      'r-1',
      { api_key_hashes: null },
    ],
    [
      'members',
      'd',
      [],
      'Deactivate Strict, and disable every key that they created?',
      'deactivate',
      'r-1',
      {},
    ],
  ] as const)('%s: %s', async (noun, key, answers, question, verb, id, input) => {
    const { source, screen } = await openNoun(noun)
    await change(screen, key, answers as never, question)
    await screen.see('[y/N]', false)
    expect(source.asked).toMatchObject([{ noun, verb, id, input }])
    screen[Symbol.dispose]()
  })

  test.each([
    [
      'workspaces',
      { ...ROW, id: 'w-1' },
      'm',
      [
        ['which time', 'daily'],
        ['Its daily budget', '3'],
      ],
      'Set the daily budget of Strict to $3.00?',
      'budgets',
      'set',
      'w-1 daily',
      { limit_usd: 3 },
    ],
    [
      'workspaces',
      { ...ROW, id: 'w-1' },
      't',
      [['add which members', 'ada']],
      'Add ada@x.org to Strict?',
      'members',
      'add',
      'w-1',
      { user_ids: ['u-1'] },
    ],
    [
      'members',
      { ...ROW, id: 'u-1' },
      'u',
      [['which workspace', 'Te']],
      'Remove Strict from Team?',
      'members',
      'remove',
      'w-1',
      { user_ids: ['u-1'] },
    ],
    [
      'budgets',
      { workspace_id: 'w-1', reset_interval: 'daily', limit_usd: 2 },
      'x',
      [],
      'Delete the daily budget?',
      'budgets',
      'delete',
      'w-1 daily',
      {},
    ],
  ] as const)('%s %o: %s', async (noun, row, key, answers, question, changed, verb, id, input) => {
    const { source, screen } = await openNoun(noun, row)
    await change(screen, key, answers as never, question)
    await screen.see('[y/N]', false)
    expect(source.asked).toMatchObject([{ noun: changed, verb, id, input }])
    screen[Symbol.dispose]()
  })

  test('a destination that is told nothing says what else is off', async () => {
    const warning = 'Nothing is sent: is_observability_broadcast_enabled is off'
    const { screen } = await openNoun('destinations', { ...ROW, enabled: false, warning })
    await change(screen, 'd', [], 'Enable Strict?')
    await screen.see(warning)
    screen[Symbol.dispose]()
  })

  test('rates are shown with guardrails, and with a key that is opened', async () => {
    const limits = { requests_per_minute: 6_000, tokens_per_minute: null, concurrent_requests: 4 }
    const { source, screen } = await openNoun('guardrails', { ...ROW, ...limits })
    const list = await screen.see('6,000 requests/min, 4 at once')
    expect(list).toContain('RATES')
    expect(list).not.toContain('REQUESTS_PER_MINUTE')
    source.rates = [
      { scope: 'workspace', name: 'Default', ...limits },
      { scope: 'key', name: 'Strict', ...limits, tokens_per_minute: 9 },
    ]
    await screen.type('4')
    await screen.see('laptop')
    await screen.type(ENTER)
    expect(await screen.see('rates_of_key')).toMatch(
      /rates_of_workspace +6,000 requests\/min, 4 at once \(Default\)/,
    )
    expect(screen.read()).toMatch(
      /rates_of_key +6,000 requests\/min, 9 tokens\/min, 4 at once \(Strict\)/,
    )
    screen[Symbol.dispose]()
  })

  test('not where it is declined or left, named wrongly or unknown: a sentence says so', async () => {
    const { source, screen } = await openNoun('guardrails')
    await screen.type('x')
    await screen.see('[y/N]')
    await screen.type('n')
    await screen.see('[y/N]', false)
    await screen.type('e')
    await screen.see('New name of Strict')
    await screen.type(ESCAPE)
    await screen.see('New name of Strict', false)
    await screen.type('d')
    await screen.see('A guardrail cannot be disabled: u takes it from keys and members')
    await screen.type('t')
    await screen.see('assign Strict to which')
    await screen.type('zz\r')
    await screen.see('zz: found none among the keys or members')
    await screen.type('t')
    await screen.see('assign Strict to which')
    await screen.type(ENTER)
    await screen.see('Expected a name, or several with commas')
    await screen.type('n')
    await screen.see('Name of the new guardrail')
    await screen.type(ENTER)
    await screen.see('Expected a name')
    await screen.type('m')
    await screen.see('The budget of Strict')
    await screen.type('-1\r')
    await screen.see('Expected an amount such as 5')
    expect(source.asked).toEqual([])
    screen[Symbol.dispose]()
  })

  test('a secret is not on the screen, however long', async () => {
    const { source, screen } = await openNoun('byok')
    await screen.type('n')
    await screen.see('The provider of')
    await screen.type('openai\r')
    await screen.see('Its name')
    await screen.type('own\r')
    await screen.see('The provider’s key')
    await screen.type('s3cret'.repeat(1_000))
    await screen.see('6000 characters')
    expect(screen.stdout.frames.join('')).not.toContain('s3c')
    await screen.type(ENTER)
    await screen.see('Use this key of 6000 characters')
    await screen.type('y')
    await screen.see('own is used at openai')
    expect(source.asked).toMatchObject([{ input: { key: 's3cret'.repeat(1_000) } }])
    screen[Symbol.dispose]()
  })
})

describe('the screen', () => {
  test('lists every key in its help, and is left by q and ctrl-c', async () => {
    for (const key of ['q', '\u0003']) {
      const source = new FakeSource()
      using screen = openScreen(source, { columns: 100, rows: 40 })
      await screen.type('?')
      await screen.see('this help')
      for (const { means, keys } of Object.values(KEYS)) {
        expect(screen.read()).toContain(means)
        expect(screen.read()).toContain(keys.join(', '))
      }
      await screen.type('x')
      await screen.see('this help', false)
      await screen.type(key)
      while (!screen.isLeft) await Bun.sleep(1)
    }
  })

  test('names every view on 80 columns, and says which part of a longer help is shown', async () => {
    using screen = openScreen(new FakeSource(), { columns: 80, rows: 24 })
    const tabs = ' 1 Calls  2 Endpoints  3 Money  4 Keys  5 Overview  6 More '
    expect(await screen.see('  live')).toContain(tabs)
    await screen.type('?')
    const keys = Object.keys(KEYS).length
    await screen.see(`Keys 1 to 20 of ${keys} · ↑ ↓ scroll · other keys close`)
    await screen.type('G')
    expect(await screen.see(`Keys ${keys - 19} to ${keys} of ${keys}`)).toContain('ctrl-c')
  })

  test('is left by q over its help too', async () => {
    using screen = openScreen(new FakeSource(), { columns: 100, rows: 40 })
    await screen.type('?')
    await screen.see('this help')
    await screen.type('q')
    expect(screen.isLeft).toBe(true)
  })

  test('changes the view by numbers, tab and shift-tab', async () => {
    const { screen } = openFed()
    await screen.type('\t')
    await screen.see('endpoints in use')
    await screen.type('\u001b[Z', '\u001b[Z')
    await screen.see('What else there is')
    await screen.type('1')
    await screen.see('0 shown')
    screen[Symbol.dispose]()
  })

  test('keys that come at once with one that changes the view are not for the view that is left', async () => {
    const { screen } = openFed(...buildCallEntries('gen-1'), STATE)
    await screen.type('2')
    await screen.see('2 endpoints')
    await screen.type('1z')
    expect(await screen.see('1 shown')).not.toContain('how many minutes')
    screen[Symbol.dispose]()
  })

  test('says that no server runs, shows what is stored, and finds one that comes back', async () => {
    const source = new FakeSource()
    source.silence = 'No server runs on /var/lib/gateway'
    using screen = openScreen(source)
    await screen.see('No server runs on /var/lib/gateway. What is stored is shown')
    source.silence = null
    await screen.see('  live')
    source.tell(...buildCallEntries('gen-1').slice(0, 3))
    await screen.see('1 running')
    source.tell(null)
    await screen.see('the server has ended')
    expect(screen.read()).toContain('0 running')
  })

  test('fits any size: no line is too wide, and there are not too many', async () => {
    const source = new FakeSource()
    source.tell(...buildCallEntries('gen-1'), STATE)
    using screen = openScreen(source, { columns: 60, rows: 18 })
    await screen.see('1 shown')
    for (const [columns, rows] of [
      [60, 18],
      [80, 24],
      [160, 50],
      [41, 8],
    ] as const) {
      screen.resize(columns, rows)
      for (const view of ['1', '2', '3', '4', '5', '6', '?']) {
        await screen.type(view)
        const lines = screen.read().split('\n')
        expect([view, columns, lines.length < rows]).toEqual([view, columns, true])
        expect(lines.filter(line => measure(line.trimEnd()) > columns)).toEqual([])
      }
      await screen.type('x')
    }
    screen.resize(20, 5)
    await screen.see('Too small: 20×5')
  })

  test('shows no escapes, controls or marks that callers put into names', async () => {
    const evil = 'evil\u001b[2J\u009b31m\u202e\r\nname 漢字'
    const { screen } = openFed(
      ...buildCallEntries('gen-1', { model: evil, key: evil }),
      entry('alarm', { name: 'x', message: evil }),
      STATE,
    )
    await screen.see('evil')
    await screen.type('\r', 'h', '5', '1')
    await screen.see('1 shown')
    const written = screen.stdout.frames.join('')
    for (const bad of ['\u001b[2J', '\u009b', '\u202e', '\r']) expect(written).not.toContain(bad)
    screen[Symbol.dispose]()
  })

  test('takes a pasted megabyte for a short filter, or for nothing', async () => {
    const { screen } = openFed(...buildCallEntries('gen-1'))
    await screen.see('1 shown')
    await screen.type('q'.repeat(1_000_000))
    await screen.type('/')
    await screen.see('Filter:')
    await screen.type(`z\u001b[2J${'y'.repeat(1_000_000)}`)
    await screen.see('0 shown')
    await screen.type(ENTER)
    expect((await screen.see('filter: z')).length).toBeLessThan(5_000)
    expect(screen.isLeft).toBe(false)
    screen[Symbol.dispose]()
  })

  test('shows ten thousand keys as quickly as it scrolls to the last', async () => {
    const source = new FakeSource()
    source.keys = Array.from({ length: 10_000 }, (_, i) => buildKey(`key-${i}`))
    using screen = openScreen(source)
    await screen.type('4')
    await screen.see('10000 keys')
    await screen.type('G')
    await screen.see('key-9999')
    await screen.type('/')
    await screen.see('Filter:')
    await screen.type('key-4242', ENTER)
    expect(await screen.see('1 keys')).not.toContain('key-4243')
  })

  test('says in a sentence what is wrong with the database meanwhile, and goes on', async () => {
    const { source, screen } = openFed()
    const { list } = source
    await screen.type('4')
    await screen.see('2 keys')
    source.list = () => Promise.reject(Object.assign(new Error('locked'), { code: 'SQLITE_BUSY' }))
    await screen.type('5', '4')
    await screen.see('another process writes to the database: try again (SQLITE_BUSY)')
    source.list = list
    await screen.type('5', '4')
    await screen.see('2 keys')
    screen[Symbol.dispose]()
  })
})
