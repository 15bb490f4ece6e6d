import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { startTellingServer, type TellingServer } from '../../support/activity.ts'
import { runCommand } from '../../support/commands.ts'
import { PROGRAM } from '../../support/server.ts'
import { openTerminal } from '../../support/terminal.ts'

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

const openTui = (args: string[], env: Record<string, string> = {}) =>
  openTerminal([...PROGRAM, 'tui', ...args], { env })

describe.skipIf(process.platform === 'win32')('gateway tui on a real terminal', () => {
  test('shows a call at each size, and leaves the terminal as it was', async () => {
    const terminal = openTui(['--data', server.data])
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
    const terminal = openTui(['--url', server.url], {
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

describe.skipIf(process.platform === 'win32')('a terminal UI that ends against its will', () => {
  /** Runs it in a shell that says at the end how the terminal was left. */
  const openInShell = (command: string[], env: Record<string, string> = {}) =>
    openTerminal(['sh', '-c', `"$@"; echo CODE $?; stty -a; echo DONE`, 'sh', ...command], { env })

  function expectRestored(written: string): void {
    const after = written.slice(written.lastIndexOf(LEAVE_SCREEN))
    expect(written).toContain(ENTER_SCREEN)
    expect(after).toContain(SHOW_CURSOR)
    expect(after).toMatch(/[^-]icanon[\s\S]*[^-]echo /)
  }

  test.each(['render', 'rejection', 'exception'])(
    'leaves the terminal as it was, and one line, after a fault: %s',
    async fault => {
      const script = resolve(import.meta.dir, '../../support/crashing-tui.tsx')
      const terminal = openInShell([process.execPath, 'run', script, fault])
      await terminal.see('DONE')
      expectRestored(terminal.written)
      const after = Bun.stripANSI(
        terminal.written.slice(terminal.written.lastIndexOf(LEAVE_SCREEN)),
      )
      expect(after.split('CODE')[0]?.trim()).toBe('gateway: a planted fault')
      expect(after).toContain('CODE 1')
    },
  )

  test.each(['SIGTERM', 'SIGHUP', 'SIGINT'] as const)('and after %s', async signal => {
    const terminal = openInShell([...PROGRAM, 'tui', '--data', server.data])
    await terminal.see('  live')
    const [pid] = findChildren(terminal.child.pid)
    process.kill(pid ?? 0, signal)
    await terminal.see('DONE')
    expectRestored(terminal.written)
    expect(terminal.written).toContain('CODE 0')
  })
})

const findChildren = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)

test('without a terminal it says so in one line', async () => {
  const { code, stderr } = await runCommand(['tui', '--data', server.data])
  expect([code, stderr]).toEqual([
    2,
    'gateway: gateway tui needs a terminal: gateway watch prints the same without one\n',
  ])
})

test('what is wrong with a data directory is said before the screen changes', async () => {
  const terminal = openTui(['--data', '/nowhere/at/all'])
  expect(await terminal.child.exited).toBe(3)
  expect(terminal.written).toContain('There is no data of a gateway in /nowhere/at/all')
  expect(terminal.written).not.toContain(ENTER_SCREEN)
})
