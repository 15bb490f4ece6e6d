import manifest from '../../package.json' with { type: 'json' }
import type { Archiver, Entry } from './archives.ts'
import { readOwn } from './contents.ts'
import type { System } from './systems.data.ts'

const { version, license, description } = manifest

/**
 * Renders the package that `npx` runs. It has one optional package for each system, of which npm
 * installs the right one; nothing runs while it installs.
 */
export const renderNpmMain = (archiver: Archiver, scope: string, systems: System[]) =>
  renderPackage(archiver, `${scope}/cli`, {
    manifest: {
      bin: { gateway: 'bin/gateway.cjs' },
      engines: { node: '>=18' },
      optionalDependencies: Object.fromEntries(
        systems.map(({ name }) => [`${scope}/cli-${name}`, version]),
      ),
    },
    files: [
      { path: 'bin/gateway.cjs', content: readOwn('scripts/release/npm-start.cjs'), mode: 0o755 },
      { path: 'README.md', content: readOwn('README.md') },
    ],
  })

/** Renders the package that holds the program of one system. */
export const renderNpmProgram = (
  archiver: Archiver,
  scope: string,
  { name, npm }: System,
  program: Entry,
) =>
  renderPackage(archiver, `${scope}/cli-${name}`, {
    manifest: {
      os: [npm.os],
      cpu: [npm.cpu],
      ...(npm.libc !== undefined && { libc: [npm.libc] }),
      // A program within a zip archive does not run.
      preferUnplugged: true,
    },
    files: [program],
  })

function renderPackage(
  archiver: Archiver,
  name: string,
  { manifest, files }: { manifest: object; files: Entry[] },
): [name: string, bytes: Uint8Array] {
  const content = Buffer.from(
    `${JSON.stringify({ name, version, description, license, ...manifest }, null, 2)}\n`,
  )
  const entries = [
    { path: 'package.json', content },
    { path: 'LICENSE', content: readOwn('LICENSE') },
    ...files,
  ].map(entry => ({ ...entry, path: `package/${entry.path}` }))
  const file = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`
  return [file, archiver.gzip(archiver.tar(entries))]
}
