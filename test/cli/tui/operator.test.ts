import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { measure } from '../../../src/cli/tui/text.ts'
import { startTellingServer, type TellingServer } from '../../support/activity.ts'
import { openDatabaseNow } from '../../support/database.ts'
import { PROGRAM } from '../../support/server.ts'
import { openTerminal } from '../../support/terminal.ts'
import type { TerminalScreen } from '../../support/terminal-screen.ts'
import { completion, startUpstream, status, type Upstream } from '../../support/upstream.ts'

/*
 * An operator at a real terminal, while calls come without a pause and one of two providers fails
 * every other time.
 */

let providers: { flaky: Upstream; solid: Upstream }
let server: TellingServer
let isLoaded = true
let load: Promise<unknown>

beforeAll(async () => {
  providers = { flaky: await startUpstream(), solid: await startUpstream() }
  let asked = 0
  providers.flaky.answer(() =>
    asked++ % 2 === 0 ? status(503, 'Too many of you') : completion('From flaky'),
  )
  providers.solid.answer(() => completion('From solid'))
  server = await startTellingServer(buildConfig())
  load = Promise.all([1, 2].map(callOn))
})
afterAll(async () => {
  isLoaded = false
  await load
  await server[Symbol.asyncDispose]()
  for (const provider of Object.values(providers)) await provider.close()
})

const buildConfig = () => ({
  providers: Object.fromEntries(
    Object.entries(providers).map(([name, { url }]) => [
      name,
      { protocol: 'openai-chat', base_url: url, api_key: 'k' },
    ]),
  ),
  models: [
    {
      id: 'acme/small',
      endpoints: Object.keys(providers).map(provider => ({
        ...{ provider, model: 'up', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      })),
    },
  ],
  // It never cools down: each call tries it first.
  routing: { choice: 'listed', failures: 1_000_000 },
})

/** Makes calls one after the other, with a short pause that leaves the machine to others. */
async function callOn(): Promise<void> {
  while (isLoaded) {
    await server.call('Hello', { model: 'acme/small' })
    await Bun.sleep(50)
  }
}

/** Whether the other screen and the cursor are shown, and what is on the screen. */
const readState = ({ isAlternate, isCursorShown, text }: TerminalScreen) => [
  ...[isAlternate, isCursorShown, text.trim()],
]

/** What each view must show, whatever room it has. */
const VIEWS: [key: string, ...patterns: RegExp[]][] = [
  ['2', / 2 Endpoints /, /acme\/small +flaky/, /acme\/small +solid/, /ERRORS/, / \d+%/],
  ['3', / 3 Money /, /Credits/, /key +inference/],
  ['4', / 4 Keys /, /\d keys/, /inference/],
  ['5', / 5 Overview /, /calls\/s/, /errors in a minute/, /Alarms/, /[⠁-⣿]/],
  ['6', / 6 More /, /What else there is/, /guardrails/],
  ['1', / 1 Calls /, /running, .*calls\/s/, /STATUS/, /200 .*acme\/small .*(solid|flaky)/],
]

describe.skipIf(process.platform === 'win32')('an operator while a provider flaps', () => {
  test('sees each view at each size and after each resize, and each key is taken', async () => {
    const terminal = openTerminal([...PROGRAM, 'tui', '--data', server.data], {
      ...{ cols: 80, rows: 24 },
    })
    await terminal.seeScreen(/ live/, /200/)
    for (const [cols, rows] of [
      [80, 24],
      [60, 18],
      [160, 50],
    ] as const) {
      terminal.resize(cols, rows)
      for (const [key, ...patterns] of VIEWS) {
        terminal.type(key)
        await terminal.seeScreen(...patterns, /q quit$/m)
        const { lines } = terminal.screen
        expect(lines.filter(line => measure(line) > cols)).toEqual([])
        expect(lines.filter(line => /^ ?\d .*live$/.test(line))).toHaveLength(1)
      }
    }
    terminal.type('/')
    await terminal.seeScreen(/Filter: /)
    terminal.type('solid\r')
    await terminal.seeScreen(/filter: solid/, / 2 +\d+ms/)
    terminal.type('\r')
    await terminal.seeScreen(
      ...[/Plan/, /Attempts/, /flaky.* 503 .*provider_unavailable/, /Too many of you/],
      ...[/Usage and cost/, /The same request now/, /acme\/small solid/],
    )
    terminal.type('q')
    expect(await terminal.child.exited).toBe(0)
    expect(readState(terminal.screen)).toEqual([false, true, ''])
  })

  test('S-10 keeps no transaction open in any view: the write-ahead log can be emptied', async () => {
    const terminal = openTerminal([...PROGRAM, 'tui', '--data', server.data])
    await terminal.seeScreen(/ live/, /200/)
    const db = openDatabaseNow(server.data, { readwrite: true })
    for (const [key, ...patterns] of VIEWS) {
      terminal.type(key)
      await terminal.seeScreen(...patterns)
      // Waits for reads of a moment, and is refused by one that stays.
      expect(db.query('pragma wal_checkpoint(truncate)').get()).toMatchObject({ busy: 0 })
    }
    db.close()
    terminal.type('q')
    expect(await terminal.child.exited).toBe(0)
  })

  test('lets it rest by hand, changes a limit, and finds the terminal as it was', async () => {
    const shell = ['sh', '-c', 'echo BEFORE; "$@"; echo CODE $?; stty -a', 'sh']
    const terminal = openTerminal([...shell, ...PROGRAM, 'tui', '--data', server.data], {
      ...{ cols: 100, rows: 30 },
    })
    await terminal.seeScreen(/ live/, /200/)
    terminal.type('2')
    await terminal.seeScreen(/2 endpoints in use/)
    terminal.type('/')
    await terminal.seeScreen(/Filter: /)
    terminal.type('flaky\r')
    await terminal.seeScreen(/1 endpoints in use/)
    terminal.type('z')
    await terminal.seeScreen(/rest for how many minutes/)
    terminal.type('\r')
    await terminal.seeScreen(/rests for 10 min/)
    await terminal.seeScreen(/rests \d{3}s/)
    terminal.type('4')
    await terminal.seeScreen(/2 keys/)
    terminal.type('/')
    await terminal.seeScreen(/Filter: /)
    terminal.type('inference\r')
    await terminal.seeScreen(/1 keys/)
    terminal.type('m')
    await terminal.seeScreen(/New limit of inference/)
    terminal.type('50\r')
    await terminal.seeScreen(/from none to \$50\.00\? \[y\/N\]/)
    terminal.type('y')
    await terminal.seeScreen(/limit of inference is changed/, /inference .*\$50\.00/)
    terminal.type('q')
    await terminal.seeScreen(/^BEFORE\nCODE 0\n/, /[^-]icanon[\s\S]*[^-]echo /)
    expect(readState(terminal.screen).slice(0, 2)).toEqual([false, true])
  })

  test('finds the terminal as it was after SIGTERM in the midst of it', async () => {
    const terminal = openTerminal([...PROGRAM, 'tui', '--data', server.data])
    await terminal.seeScreen(/ live/, /200/)
    terminal.child.kill('SIGTERM')
    expect(await terminal.child.exited).toBe(0)
    expect(readState(terminal.screen)).toEqual([false, true, ''])
  })
})
