import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OPTIONS } from '../build.ts'

/*
 * `bun run sizes`: what takes how much of dist/gateway, in MB. Of the engine, of the sources by
 * package and folder, of what is embedded as it is, and of bytecode, which is the rest.
 */

/** A part of the executable, in bytes. */
interface Part {
  name: string
  size: number
}

const PROGRAM = 'dist/gateway'
/** In bytes: smaller parts are summed up. */
const SMALL = 50_000

const directory = mkdtempSync(join(tmpdir(), 'gateway-sizes-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))

async function printSizes(): Promise<void> {
  const program = statSync(PROGRAM).size
  const engine = statSync(process.execPath).size
  const { sources, assets } = await listParts()
  const bytecode = program - engine - sum(sources) - sum(assets)
  printPart({ name: PROGRAM, size: program })
  printPart({ name: '  the engine (Bun)', size: engine })
  printPart({ name: '  bytecode of the sources', size: bytecode })
  printPart({ name: '  sources', size: sum(sources) })
  printParts(sources)
  printPart({ name: '  embedded as they are', size: sum(assets) })
  printParts(assets)
}

async function listParts(): Promise<{ sources: Part[]; assets: Part[] }> {
  const result = await Bun.build({ ...OPTIONS, metafile: true, outdir: join(directory, 'out') })
  const sizes = new Map<string, number>()
  for (const { inputs } of Object.values(result.metafile?.outputs ?? {}))
    for (const [path, { bytesInOutput }] of Object.entries(inputs))
      sizes.set(nameGroup(path), (sizes.get(nameGroup(path)) ?? 0) + bytesInOutput)
  const assets = result.outputs
    .filter(({ kind }) => kind === 'asset')
    .map(({ path, size }) => ({ name: path.slice(path.lastIndexOf('/') + 1), size }))
  return { sources: [...sizes].map(([name, size]) => ({ name, size })), assets }
}

/** Names what a file belongs to: a package, or a folder of ours. */
function nameGroup(path: string): string {
  const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path) ?? []
  return name ?? path.split('/').slice(0, 3).join('/')
}

function printParts(parts: Part[]): void {
  const large = parts.filter(({ size }) => size >= SMALL).toSorted((a, b) => b.size - a.size)
  for (const { name, size } of large) printPart({ name: `    ${name}`, size })
  const rest = sum(parts) - sum(large)
  if (rest > 0) printPart({ name: '    smaller ones', size: rest })
}

function sum(parts: Part[]): number {
  return parts.reduce((total, { size }) => total + size, 0)
}

function printPart({ name, size }: Part): void {
  process.stdout.write(`${(size / 1e6).toFixed(2).padStart(7)}  ${name}\n`)
}

await printSizes()
