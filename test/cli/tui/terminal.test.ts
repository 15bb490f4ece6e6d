import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTellingServer, type TellingServer } from '../../support/activity.ts'
import { runCommand } from '../../support/commands.ts'
import { PROGRAM } from '../../support/server.ts'

let server: TellingServer
beforeAll(async () => {
  server = await startTellingServer()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Waits until the server tells somebody what happens. */
async function listening(): Promise<void> {
  while (server.gateway.activity.size === 0) await Bun.sleep(1)
}

const ENTER_SCREEN = '\u001b[?1049h'
const LEAVE_SCREEN = '\u001b[?1049l'
const SHOW_CURSOR = '\u001b[?25h'

/** The program on a terminal of its own, and all that it has written there. */
function openTerminal(args: string[], env: Record<string, string> = {}) {
  let written = ''
  let from = 0
  const child = Bun.spawn([...PROGRAM, 'tui', ...args], {
    env: { ...process.env, TERM: 'xterm-256color', CI: 'false', ...env },
    terminal: {
      cols: 80,
      rows: 24,
      data: (_, bytes) => {
        written += Buffer.from(bytes).toString()
      },
    },
  })
  return {
    child,
    get written() {
      return written
    },
    type: (keys: string) => void child.terminal?.write(keys),
    resize(cols: number, rows: number): void {
      from = written.length
      child.terminal?.resize(cols, rows)
    },
    /** Waits until a text was written since the last change of the size. */
    async see(text: string): Promise<void> {
      while (!Bun.stripANSI(written.slice(from)).includes(text)) await Bun.sleep(5)
    },
  }
}

describe.skipIf(process.platform === 'win32')('gateway tui on a real terminal', () => {
  test('shows a call at each size, and leaves the terminal as it was', async () => {
    const terminal = openTerminal(['--data', server.data])
    await terminal.see('  live')
    await listening()
    await server.call()
    await terminal.see('sandbox/echo')
    terminal.resize(60, 18)
    await terminal.see(' 1 Calls  2  3  4  5  6 ')
    terminal.resize(160, 50)
    await terminal.see(' 1 Calls  2 Endpoints  3 Money  4 Keys  5 Overview  6 More ')
    terminal.type('4')
    await terminal.see('inference')
    terminal.type('q')
    expect(await terminal.child.exited).toBe(0)
    const end = terminal.written.slice(terminal.written.lastIndexOf(LEAVE_SCREEN))
    expect(terminal.written).toStartWith(ENTER_SCREEN)
    expect(end).toContain(SHOW_CURSOR)
    expect(Bun.stripANSI(end).trim()).toBe('')
  })

  test('leaves the terminal as it was when it is told to end, of a gateway elsewhere too', async () => {
    const terminal = openTerminal(['--url', server.url], {
      GATEWAY_KEY: server.management_key,
      NO_COLOR: '1',
    })
    await terminal.see('  live')
    await listening()
    await server.call()
    await terminal.see('sandbox/echo')
    terminal.child.kill('SIGTERM')
    expect(await terminal.child.exited).toBe(0)
    expect(terminal.written.slice(terminal.written.lastIndexOf(LEAVE_SCREEN))).toContain(
      SHOW_CURSOR,
    )
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are escapes
    expect(terminal.written).not.toMatch(/\u001b\[3[1-7]m/)
  })
})

test('without a terminal it says so in one line', async () => {
  const { code, stderr } = await runCommand(['tui', '--data', server.data])
  expect([code, stderr]).toEqual([
    2,
    'gateway: gateway tui needs a terminal: gateway watch prints the same without one\n',
  ])
})

test('what is wrong with a data directory is said before the screen changes', async () => {
  const terminal = openTerminal(['--data', '/nowhere/at/all'])
  expect(await terminal.child.exited).toBe(3)
  expect(terminal.written).toContain('There is no data of a gateway in /nowhere/at/all')
  expect(terminal.written).not.toContain(ENTER_SCREEN)
})
