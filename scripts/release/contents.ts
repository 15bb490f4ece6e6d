import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { SCRIPTS } from '../../src/cli/completions/scripts.ts'
import { createProgram } from '../../src/cli/main.ts'
import { nameFile, renderRoff } from '../../src/cli/manual/roff.ts'
import { listPages } from '../../src/cli/manual.ts'
import type { Entry } from './archives.ts'

const ROOT = resolve(import.meta.dir, '../..')

/** Reads a file of this checkout. */
export const readOwn = (path: string): Buffer => readFileSync(join(ROOT, path))

/** Lists what every archive has beside the program, by its path there. */
export const listContents = async (licenses: string): Promise<Entry[]> => [
  ...['LICENSE', 'README.md'].map(path => ({ path, content: readOwn(path) })),
  { path: 'LICENSES-OF-PACKAGES.txt', content: Buffer.from(licenses) },
  ...listCompletions(),
  ...(await listManual()),
  ...listDeployment(),
]

const listCompletions = (): Entry[] =>
  Object.entries({ 'gateway.bash': 'bash', _gateway: 'zsh', 'gateway.fish': 'fish' } as const).map(
    ([name, shell]) => ({ path: `completions/${name}`, content: Buffer.from(SCRIPTS[shell]) }),
  )

const listManual = async (): Promise<Entry[]> =>
  listPages(await createProgram()).map(page => ({
    path: `man/man1/${nameFile(page)}`,
    content: Buffer.from(renderRoff(page)),
  }))

/** Lists the files that systemd, proxies and monitoring take. */
const listDeployment = (): Entry[] =>
  readdirSync(join(ROOT, 'deploy'), { recursive: true, withFileTypes: true })
    .filter(file => file.isFile() && !['install.sh', 'Dockerfile'].includes(file.name))
    .map(({ parentPath, name }) => join(parentPath, name).slice(ROOT.length + 1))
    .toSorted()
    .map(path => ({ path, content: readOwn(path) }))
