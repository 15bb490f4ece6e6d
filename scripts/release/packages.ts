import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describeProgram } from '../../src/base/version.ts'
import { RUNTIME_VERSION } from './systems.data.ts'

const ROOT = resolve(import.meta.dir, '../..')

/** A package that the program is made of. */
interface Package {
  name: string
  version: string
  /** Its SHA-512, in hexadecimal digits. */
  hash: string
  license: string
  /** The text of its licence; empty where it has no file of one. */
  terms: string
}

interface LockedNeeds {
  dependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  optionalPeers?: string[]
}

/** An entry of bun.lock: its name and version, where it is from, what it needs, and its sum. */
type Locked = [id: string, registry: string, needs: LockedNeeds, integrity: string]

/**
 * Lists the packages that the lock gives the program's own dependencies, by name and version. What
 * is optional is no part of the program.
 */
export async function listPackages(): Promise<Package[]> {
  const lock = Bun.JSONC.parse(await Bun.file(join(ROOT, 'bun.lock')).text()) as {
    workspaces: { '': { dependencies: Record<string, string> } }
    packages: Record<string, Locked>
  }
  const places = new Set<string>()
  const add = (parent: string, names: string[]) => {
    for (const name of names) {
      const place = findPlace(lock.packages, parent, name)
      const [, , needs] = lock.packages[place] ?? []
      if (places.has(place) || !needs) continue
      places.add(place)
      add(place, listNeeds(needs))
    }
  }
  // Bun is what they run on, and listed as that.
  const own = Object.keys(lock.workspaces[''].dependencies).filter(name => name !== 'bun')
  add('', own)
  // The same one may be in several places.
  const found = new Map([...places].map(place => [lock.packages[place]?.[0] ?? '', place]))
  return [...found]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, place]) => describePackage(place, lock.packages[place] as Locked))
}

const listNeeds = ({ dependencies, peerDependencies, optionalPeers = [] }: LockedNeeds) => [
  ...Object.keys(dependencies ?? {}),
  ...Object.keys(peerDependencies ?? {}).filter(name => !optionalPeers.includes(name)),
]

/** Finds where the lock has a package that another one needs: within that one, or further out. */
function findPlace(packages: Record<string, Locked>, parent: string, name: string): string {
  const place = parent === '' ? name : `${parent}/${name}`
  if (parent === '' || packages[place]) return place
  return findPlace(packages, parent.replace(/(^|\/)(@[^/]+\/)?[^/]+$/, ''), name)
}

function describePackage(place: string, [id, , , integrity]: Locked): Package {
  const [, name = '', version = ''] = /^(.+)@([^@]+)$/.exec(id) ?? []
  const names = place.match(/(@[^/]+\/)?[^/]+/g) ?? []
  const directory = join(ROOT, 'node_modules', names.join('/node_modules/'))
  const hash = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex')
  const { license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'))
  const file = readdirSync(directory).find(one => /^licen[cs]e(\.(md|txt))?$/i.test(one))
  const terms = file === undefined ? '' : readFileSync(join(directory, file), 'utf8')
  return { name, version, hash, license: license ?? 'NOASSERTION', terms }
}

/** Renders the licences of all packages that the program contains. */
export const renderLicenses = (packages: Package[]): string =>
  packages
    .map(({ name, version, license, terms }) =>
      [`${name} ${version}: ${license}`, terms.trim().replaceAll('\r', '')].join('\n\n').trim(),
    )
    .concat(`Bun ${RUNTIME_VERSION}: https://bun.com/docs/project/license`)
    .join(`\n\n${'-'.repeat(72)}\n\n`)
    .concat('\n')

/** Renders the list of materials, as CycloneDX: the same for the same lock and commit. */
export function renderSbom(packages: Package[], seconds: number): string {
  const { version } = describeProgram()
  const list = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      timestamp: new Date(seconds * 1000).toISOString(),
      component: { type: 'application', 'bom-ref': 'gateway', name: 'gateway', version },
    },
    components: [
      ...packages.map(describeComponent),
      {
        ...{ type: 'platform', 'bom-ref': `bun@${RUNTIME_VERSION}`, name: 'bun' },
        ...{ version: RUNTIME_VERSION, purl: `pkg:npm/bun@${RUNTIME_VERSION}` },
        licenses: [{ license: { id: 'MIT' } }],
      },
    ],
  }
  const serialNumber = `urn:uuid:${Bun.randomUUIDv5(JSON.stringify(list), 'url')}`
  const { bomFormat, specVersion, ...rest } = list
  return `${JSON.stringify({ bomFormat, specVersion, serialNumber, ...rest }, null, 2)}\n`
}

const describeComponent = ({ name, version, hash, license }: Package) => ({
  type: 'library',
  'bom-ref': `${name}@${version}`,
  name,
  version,
  purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
  hashes: [{ alg: 'SHA-512', content: hash }],
  licenses: [/^[\w.-]+$/.test(license) ? { license: { id: license } } : { expression: license }],
})
