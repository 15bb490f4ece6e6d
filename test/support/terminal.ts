import { tmpdir } from 'node:os'
import { PROGRAM } from './server.ts'

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
