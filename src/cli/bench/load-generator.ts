import { findProgram } from '../own-program.ts'
import { createCleanEnvironment, listLeashArguments, listPinArguments } from './children.ts'
import { CORES } from './contenders.ts'
import type { Order, Outcome } from './generator.ts'

/** The load generator, as the benchmark asks it: a process that carries out one order at a time. */
export class LoadGenerator {
  readonly #child: Bun.Subprocess<'pipe', 'pipe', 'inherit'>
  readonly #lines: AsyncIterator<string>

  private constructor(child: Bun.Subprocess<'pipe', 'pipe', 'inherit'>) {
    this.#child = child
    this.#lines = readLines(child.stdout)
  }

  /** Starts it beside the mock provider, and waits until it takes orders. */
  static async start(home: string): Promise<LoadGenerator> {
    const command = [...findProgram(), 'bench-part', 'load']
    const prefix = [...listLeashArguments(), ...listPinArguments(CORES.tools)]
    const child = Bun.spawn([...prefix, ...command], {
      ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
      ...{ cwd: home, env: createCleanEnvironment() },
    })
    process.once('exit', () => child.kill('SIGKILL'))
    const generator = new LoadGenerator(child)
    await generator.#readLine()
    return generator
  }

  /** Has one order carried out. Throws if the generator has ended. */
  async ask(order: Order): Promise<Outcome> {
    this.#child.stdin.write(`${JSON.stringify(order)}\n`)
    await this.#child.stdin.flush()
    return JSON.parse(await this.#readLine())
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#child.exited
  }

  async #readLine(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('The load generator has ended')
    return value
  }
}

async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}
