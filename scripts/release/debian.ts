import manifest from '../../package.json' with { type: 'json' }
import { type Archiver, addDirectories, type Entry } from './archives.ts'

const { version } = manifest

/** Where the files of an archive are in a Debian package; those of other names are left out. */
const PLACES: [pattern: RegExp, place: string][] = [
  [/^gateway$/, 'usr/bin/gateway'],
  [/^deploy\/(gateway\.(service|socket))$/, 'usr/lib/systemd/system/$1'],
  [/^man\//, 'usr/share/man/'],
  [/^completions\/gateway\.bash$/, 'usr/share/bash-completion/completions/gateway'],
  [/^completions\/_gateway$/, 'usr/share/zsh/vendor-completions/_gateway'],
  [/^completions\/gateway\.fish$/, 'usr/share/fish/vendor_completions.d/gateway.fish'],
  [/^LICENSE$/, 'usr/share/doc/gateway/copyright'],
  [/^(LICENSES-OF-PACKAGES\.txt|README\.md)$/, 'usr/share/doc/gateway/$1'],
  [/^(deploy\/.*)$/, 'usr/share/doc/gateway/$1'],
]

/** Renders a Debian package of the files of an archive. */
export function renderDebian(
  archiver: Archiver,
  architecture: string,
  entries: Entry[],
): [name: string, bytes: Uint8Array] {
  const data = entries.flatMap(placeFile)
  const size = data.reduce((sum, { content }) => sum + (content?.length ?? 0), 0)
  const control = [
    toFile('control', renderControl(architecture, Math.ceil(size / 1024))),
    toFile('md5sums', data.map(renderSum).join('')),
    ...Object.entries(SCRIPTS).map(([name, text]) => ({ ...toFile(name, text), mode: 0o755 })),
  ]
  const pack = (files: Entry[]) =>
    archiver.gzip(
      archiver.tar(addDirectories(files.map(file => ({ ...file, path: `./${file.path}` })))),
    )
  return [
    `gateway_${version}_${architecture}.deb`,
    archiver.ar([
      { path: 'debian-binary', content: Buffer.from('2.0\n') },
      { path: 'control.tar.gz', content: pack(control) },
      { path: 'data.tar.gz', content: pack(data) },
    ]),
  ]
}

const toFile = (path: string, text: string) => ({ path, content: Buffer.from(text) })

function placeFile(entry: Entry): Entry[] {
  const [pattern, place] = PLACES.find(([pattern]) => pattern.test(entry.path)) ?? []
  if (pattern === undefined || place === undefined) return []
  const path = entry.path.replace(pattern, place)
  if (!path.endsWith('.service')) return [{ ...entry, path }]
  const unit = Buffer.from(entry.content ?? '')
    .toString()
    .replace('/usr/local/bin/', '/usr/bin/')
    .replace(/^Documentation=.*$/m, 'Documentation=man:gateway(1)')
  return [toFile(path, unit)]
}

const renderSum = ({ path, content }: Entry) =>
  `${Bun.CryptoHasher.hash('md5', content ?? '', 'hex')}  ${path}\n`

const renderControl = (architecture: string, size: number) => `Package: gateway
Version: ${version}
Architecture: ${architecture}
Maintainer: The gateway authors <gateway@localhost>
Installed-Size: ${size}
Depends: libc6 (>= 2.17), passwd
Suggests: bubblewrap
Section: net
Priority: optional
Description: ${manifest.description.split(':')[0]}
 One OpenRouter-compatible API in front of every model provider. The service
 gateway.service runs as the user gateway, with its data in /var/lib/gateway.
`

/** What runs as the package comes and goes. Data and the user stay. */
const SCRIPTS = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] && ! getent passwd gateway >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/gateway --no-create-home \\
    --shell /usr/sbin/nologin gateway
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now gateway.socket gateway.service
fi
`,
  postrm: `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
`,
}
