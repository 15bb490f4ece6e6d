import { tmpdir } from 'node:os'
import { PROGRAM } from './server.ts'
import { TerminalScreen } from './terminal-screen.ts'

interface TerminalOptions {
  cwd?: string
  cols?: number
  /** What is typed when the output has this text, once. */
  answers?: [string, string][]
}

/** Runs one command on a terminal of its own. Returns all that it shows. */
export async function runOnTerminal(
  args: string[],
  { cwd = tmpdir(), cols = 200, answers = [] }: TerminalOptions = {},
): Promise<{ code: number; shown: string }> {
  let shown = ''
  const open = [...answers]
  const child = Bun.spawn([...PROGRAM, ...args], {
    cwd,
    terminal: {
      cols,
      rows: 50,
      data: (terminal, bytes) => {
        shown += Buffer.from(bytes).toString()
        const index = open.findIndex(([question]) => shown.includes(question))
        const [answer] = index === -1 ? [] : open.splice(index, 1)
        if (answer) terminal.write(answer[1])
      },
    },
  })
  const code = await child.exited
  child.terminal?.close()
  return { code, shown }
}

/** Starts a program on a terminal of its own, to be typed at and read. */
export function openTerminal(
  command: string[],
  {
    cols = 80,
    rows = 24,
    cwd = tmpdir(),
    env = {},
  }: {
    cols?: number
    rows?: number
    cwd?: string
    env?: Record<string, string>
  } = {},
) {
  let written = ''
  /** Ends with the next bytes. */
  let more = Promise.withResolvers<void>()
  let from = 0
  const screen = new TerminalScreen(cols, rows)
  const decoder = new TextDecoder()
  const child = Bun.spawn(command, {
    cwd,
    env: { ...process.env, TERM: 'xterm-256color', CI: 'false', ...env },
    terminal: {
      cols,
      rows,
      data: (_, bytes) => {
        const text = decoder.decode(bytes, { stream: true })
        written += text
        screen.write(text)
        more.resolve()
        more = Promise.withResolvers()
      },
    },
  })
  return {
    child,
    /** What it shows at this moment. */
    screen,
    /** Waits until its screen matches all of these at once. */
    async seeScreen(...patterns: RegExp[]): Promise<string> {
      while (!patterns.every(pattern => pattern.test(screen.text))) await more.promise
      return screen.text
    },
    /** All that was written, with its escapes. */
    get written() {
      return written
    },
    type: (keys: string) => void child.terminal?.write(keys),
    resize(cols: number, rows: number): void {
      from = written.length
      screen.resize(cols, rows)
      child.terminal?.resize(cols, rows)
    },
    /** Waits until a text was written since `forget` or a change of the size. */
    async see(text: string): Promise<void> {
      while (!Bun.stripANSI(written.slice(from)).includes(text)) await more.promise
    },
    /** Forgets what was written so far. */
    forget(): void {
      from = written.length
    },
  }
}
