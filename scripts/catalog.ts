import { resolve } from 'node:path'
import type { ModelRow } from '../src/resources/models/rows.ts'
import { type GatheredCatalog, gather } from './catalog/gather.ts'
import { signCatalog } from './catalog/sign.ts'
import { readSources, SOURCES } from './catalog/sources.ts'

const OUTFILE = resolve(import.meta.dir, '../src/resources/models.data.json')

/**
 * `bun run catalog` regenerates the built-in catalogue and prints a summary.
 * `bun run catalog --sign KEY OUT` signs it as it is, with the ed25519 key of a PEM file.
 */
const [option, keyFile, signedFile] = process.argv.slice(2)
if (option === undefined) await regenerate()
else if (option === '--sign' && keyFile && signedFile) await signFile(keyFile, signedFile)
else throw new Error('expected nothing, or --sign KEY OUT')

async function regenerate(): Promise<void> {
  const today = new Date().toISOString().slice(0, 10)
  const gathered = gather(await readSources(), today)
  await Bun.write(OUTFILE, renderData(gathered, today))
  for (const line of renderSummary(gathered)) process.stdout.write(`${line}\n`)
}

async function signFile(keyFile: string, signedFile: string): Promise<void> {
  const [data, key] = await Promise.all([Bun.file(OUTFILE).text(), Bun.file(keyFile).text()])
  await Bun.write(signedFile, signCatalog(data, key))
}

// One model per line, so that a refresh reads as a list of changes.
function renderData({ models, aliases }: GatheredCatalog, generated: string): string {
  const renderLines = (rows: unknown[]) => rows.map(row => JSON.stringify(row)).join(',\n')
  const head = { generated, sources: SOURCES }
  const opening = `${JSON.stringify(head).slice(0, -1)},"aliases":${JSON.stringify(aliases)}`
  return `${opening},"models":[\n${renderLines(models)}\n]}\n`
}

function renderSummary({ models, aliases, leftOut }: GatheredCatalog): string[] {
  const endpoints = models.flatMap(model => model.endpoints)
  const counts = new Map<string, number>()
  for (const { provider } of endpoints) counts.set(provider, (counts.get(provider) ?? 0) + 1)
  const priced = endpoints.filter(endpoint => endpoint.prices).length
  const kinds = Map.groupBy(models, (model: ModelRow) => (model.output ?? ['text']).join('+'))
  return [
    `${models.length} models, ${endpoints.length} endpoints (${priced} priced), ` +
      `${counts.size} providers, ${Object.keys(aliases).length} aliases`,
    `Models by output: ${[...kinds].map(([kind, { length }]) => `${kind} ${length}`).join(', ')}`,
    `Endpoints: ${[...counts].map(([provider, count]) => `${provider} ${count}`).join(', ')}`,
    ...[...leftOut].map(([why, names]) => `Left out, ${why}: ${names.length}`),
  ]
}
