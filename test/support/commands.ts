import { tmpdir } from 'node:os'
import { run } from '../../src/cli/main.ts'
import { type CommandResult, type RunOptions, runGateway } from './server.ts'

/** Commands change what belongs to the whole process, so they take turns. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Runs one command of the program to its end, in this process and so from source. A server gets a
 * process of its own.
 */
export function runCommand(args: string[], options: RunOptions = {}): Promise<CommandResult> {
  if (args[0] === 'serve') return runGateway(args, options)
  const result = last.then(() => runAlone(args, options))
  last = result.catch(() => {})
  return result
}

async function runAlone(
  args: string[],
  { env = {}, cwd = tmpdir(), stdin = '' }: RunOptions,
): Promise<CommandResult> {
  using _ = replaceSurroundings(env, cwd)
  using _input = replaceInput(stdin)
  using printed = capturePrinted()
  await run(['bun', 'gateway', ...args])
  return { code: Number(process.exitCode ?? 0), stdout: printed.stdout, stderr: printed.stderr }
}

function replaceSurroundings(env: Record<string, string>, cwd: string): Disposable {
  const before = { env: { ...process.env }, cwd: process.cwd() }
  Object.assign(process.env, env)
  process.chdir(cwd)
  // Also where the tests run on a terminal: nobody is there to be asked.
  const terminals = [process.stdin, process.stdout, process.stderr].map(stream => ({
    stream,
    isTTY: stream.isTTY,
  }))
  for (const { stream } of terminals) stream.isTTY = false
  return {
    [Symbol.dispose]() {
      process.chdir(before.cwd)
      for (const { stream, isTTY } of terminals) stream.isTTY = isTTY
      for (const name of Object.keys(env))
        if (before.env[name] === undefined) delete process.env[name]
        else process.env[name] = before.env[name]
      // The exit code of a test run is the runner's to set.
      process.exitCode = 0
    },
  }
}

/** Has `Bun.stdin` be this text. */
function replaceInput(text: string): Disposable {
  const own = Bun as { stdin: Blob }
  const before = own.stdin
  own.stdin = new Blob([text])
  return {
    [Symbol.dispose]() {
      own.stdin = before
    },
  }
}

/** Collects what is printed instead of printing it. */
function capturePrinted(): Disposable & Pick<CommandResult, 'stdout' | 'stderr'> {
  const streams = ['stdout', 'stderr'] as const
  const writes = streams.map(name => process[name].write)
  const printed = {
    stdout: '',
    stderr: '',
    [Symbol.dispose]() {
      streams.forEach((name, index) => {
        process[name].write = writes[index] as typeof process.stdout.write
      })
    },
  }
  for (const name of streams)
    process[name].write = (text: string | Uint8Array) => {
      printed[name] += typeof text === 'string' ? text : Buffer.from(text).toString()
      return true
    }
  return printed
}
