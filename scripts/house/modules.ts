import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import type { BunPlugin } from 'bun'
import { OPTIONS } from '../../build.ts'
import { initGateway } from '../../src/cli/bench/contenders.ts'
import { createTracedCall, sendCall } from '../trace/call.ts'
import { createTraceConfig, startProvider } from '../trace/provider.ts'
import { readUrl } from './heap.ts'

/** A module that the built program has run, and the bytes of its code in the program. */
export interface LoadedModule {
  path: string
  bytes: number
}

/** What the program's own thread has run: when its port listens, and when a first call is answered. */
export interface LoadedModules {
  listening: LoadedModule[]
  answered: LoadedModule[]
}

const ROOT = resolve(import.meta.dir, '../..')
/** The variable that names the directory of the lists. */
const DIRECTORY = 'HOUSE_MODULES'

/**
 * Makes every module note its name when it runs. The first one, which starts the program, writes the
 * names down when a port is open and at a signal. Workers have no list: what they run is not counted.
 */
const noteModules: BunPlugin = {
  name: 'note-modules',
  setup(build) {
    build.onLoad({ filter: /\.(ts|tsx|js|mjs|cjs)$/ }, ({ path, loader }) => {
      if (EMBEDDED.test(path)) return undefined
      const name = relative(ROOT, path)
      const note = `globalThis.__modules?.add(${JSON.stringify(name)});`
      const head = name === OPTIONS.entrypoints[0] ? WRITE_LIST + note : note
      return { contents: head + readFileSync(path, 'utf8'), loader }
    })
  },
}

const WRITE_LIST = `{
  const modules = globalThis.__modules = new Set();
  const write = name => require('node:fs').writeFileSync(
    process.env.${DIRECTORY} + '/' + name, [...modules].sort().join('\\n') + '\\n');
  const serve = Bun.serve;
  Bun.serve = options => {
    const server = serve(options);
    if (server.port) write('listening');
    return server;
  };
  process.on('SIGUSR2', () => write('answered'));
}
`

/** Scripts that are no modules here: files that the program serves. */
const EMBEDDED = /\/node_modules\/swagger-ui-dist\//

/** Builds the program with notes in it, starts it, makes a call, and returns what was run by then. */
export async function listLoadedModules(): Promise<LoadedModules> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-modules-'))
  const provider = startProvider()
  try {
    const sizes = await buildNoted(join(directory, 'out'))
    const program = [process.execPath, join(directory, 'out/src/cli/start.js')]
    const config = JSON.stringify(createTraceConfig(provider.url))
    const home = await initGateway(config, join(directory, 'home'), program)
    const paths = ['--data', home.data, '--config', join(home.data, 'gateway.yaml')]
    const child = Bun.spawn([...program, 'serve', '--port', '0', '--log', 'json', ...paths], {
      ...{ stdin: 'ignore', stdout: 'pipe', stderr: 'ignore' },
      env: { ...process.env, [DIRECTORY]: directory },
    })
    const read = async (name: string): Promise<LoadedModule[]> =>
      (await readLines(join(directory, name))).map(path => ({ path, bytes: sizes.get(path) ?? 0 }))
    try {
      const url = await readUrl(child.stdout)
      await sendCall({ url, key: home.key, provider }, createTracedCall({}))
      const listAnswered = () => {
        rmSync(join(directory, 'answered'), { force: true })
        child.kill('SIGUSR2')
        return read('answered')
      }
      let answered = await listAnswered()
      for (
        const deadline = Date.now() + PATIENCE_MS;
        !answered.some(({ path }) => path === LAST) && Date.now() < deadline;
        answered = await listAnswered()
      )
        await Bun.sleep(5)
      return { listening: await read('listening'), answered }
    } finally {
      child.kill('SIGKILL')
      await child.exited
    }
  } finally {
    await provider.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function buildNoted(outdir: string): Promise<Map<string, number>> {
  const plugins = [...OPTIONS.plugins, noteModules]
  // What is embedded as it is is found by its path, wherever the program is started.
  const places = { outdir, root: ROOT, publicPath: `${outdir}/` }
  const result = await Bun.build({ ...OPTIONS, ...places, plugins, metafile: true })
  const sizes = new Map<string, number>()
  for (const { inputs } of Object.values(result.metafile?.outputs ?? {}))
    for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
      const name = relative(ROOT, resolve(path))
      sizes.set(name, (sizes.get(name) ?? 0) + bytesInOutput)
    }
  return sizes
}

const PATIENCE_MS = 10_000

/** What a server loads last by itself: a fast machine answers its first call before that. */
const LAST = 'src/extensions/batches/runner.ts'

/** Reads a list, once it is whole. */
async function readLines(path: string): Promise<string[]> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const text = await Bun.file(path)
      .text()
      .catch(() => '')
    if (text.endsWith('\n')) return text.trimEnd().split('\n')
    if (Date.now() > deadline) throw new Error('The program did not write which modules it has run')
    await Bun.sleep(5)
  }
}
