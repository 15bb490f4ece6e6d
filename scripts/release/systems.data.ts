/** What the program is released for, and the runtimes and libraries that this takes. */

/** A system that the program is built for. */
export interface System {
  /** As in the names of files, and of Bun's targets. */
  name: string
  /** The npm package of its runtime, and the sum of that as npm writes it: one for RUNTIME_VERSION. */
  runtime: { package: string; integrity: string }
  /** As npm calls it. */
  npm: { os: string; cpu: string; libc?: string }
  /** What a Debian package and an image are made with. */
  debian?: { architecture: string; library: Library }
}

/** A Debian package of the C library, which goes into images. */
export interface Library {
  file: string
  sha256: string
  /** What Debian's archive of all packages calls it, once there is a newer one. */
  sha1: string
}

export const RUNTIME_VERSION = '1.4.5'

export const SYSTEMS: System[] = [
  {
    name: 'linux-x64',
    runtime: {
      package: '@oven/bun-linux-x64',
      integrity:
        'sha512-IWX9BELoGHAUtMonkeSaNaZwXzRk+oDw6Mk+HBFXd3KHYIBNBsIGRupMZPcgNoDbJpLu6gAJjIoIVPZtt1aJ1g==',
    },
    npm: { os: 'linux', cpu: 'x64', libc: 'glibc' },
    debian: {
      architecture: 'amd64',
      library: {
        file: 'libc6_2.36-9+deb12u14_amd64.deb',
        sha256: 'ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf',
        sha1: 'c534c6c7f912b61ca26b7cf4082235a0343b8751',
      },
    },
  },
  {
    name: 'linux-x64-musl',
    runtime: {
      package: '@oven/bun-linux-x64-musl',
      integrity:
        'sha512-10QoW/YfTgnURaGEaHpJCiXjLI2e5iTtfVDaA5JKcyUzaa1cq6cVUY9/Uq5XkYzvtRjHLRe9Oj/lTDIQcxy8HQ==',
    },
    npm: { os: 'linux', cpu: 'x64', libc: 'musl' },
  },
  {
    name: 'linux-arm64',
    runtime: {
      package: '@oven/bun-linux-aarch64',
      integrity:
        'sha512-4BXmsSKnjOrlGWqZV4x/oWa7AVoR+B6lCXddMzOAXBIm3t50eslg9wb66gmtW1AamEQ1l1CDvmmruysEhqOWMg==',
    },
    npm: { os: 'linux', cpu: 'arm64', libc: 'glibc' },
    debian: {
      architecture: 'arm64',
      library: {
        file: 'libc6_2.36-9+deb12u14_arm64.deb',
        sha256: '01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4',
        sha1: '85af57bf1f9fa075163e51c99d9536154c21ab7e',
      },
    },
  },
  {
    name: 'linux-arm64-musl',
    runtime: {
      package: '@oven/bun-linux-aarch64-musl',
      integrity:
        'sha512-XCNc+WvvMAdNNb+OWTogpy+N9wm62fkVeEVLb6how0RZhW5LPi6c7BlkeVCuWps7XjEl2saFpHFa20/1E+PAHg==',
    },
    npm: { os: 'linux', cpu: 'arm64', libc: 'musl' },
  },
  {
    name: 'darwin-arm64',
    runtime: {
      package: '@oven/bun-darwin-aarch64',
      integrity:
        'sha512-4MIFXHmctH2EhAxLXm2/qxNtv17dFtLJylvaOCsrgq6KSqHTs6eW5YSrJjRbJxYUJaR901fsN8JfZOa+CsWpWQ==',
    },
    npm: { os: 'darwin', cpu: 'arm64' },
  },
  {
    name: 'darwin-x64',
    runtime: {
      package: '@oven/bun-darwin-x64',
      integrity:
        'sha512-qkLPMGHZM9NI6CeHTWwVezzmlo6cC4Ta7yUAjYIWXS366qQcOlcp75t2uZyiuVRBMPS0h9qE0tCcvCHGaFqjJg==',
    },
    npm: { os: 'darwin', cpu: 'x64' },
  },
  {
    name: 'windows-x64',
    runtime: {
      package: '@oven/bun-windows-x64',
      integrity:
        'sha512-FNvply651vcE/GHgNWz6mZvhmkwBuu8Hw54oNzA+CQog+HW+542rXQmZqNHRkFxazD9L3xi+iTtvO3engAgJfw==',
    },
    npm: { os: 'win32', cpu: 'x64' },
  },
]
