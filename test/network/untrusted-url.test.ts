import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { checkUntrustedUrl, isPublicAddress } from '../../src/network/untrusted-url.ts'
import { testGateway } from '../support/gateway.ts'

/** The addresses of each name. */
const HOSTS: Record<string, string[]> = {
  'example.com': ['93.184.215.14'],
  'six.example.com': ['2606:2800:21f:cb07:6820:80da:af6b:8b2c', '93.184.215.14'],
  'inside.example.com': ['10.0.0.5'],
  'both.example.com': ['93.184.215.14', '127.0.0.1'],
  'mapped.example.com': ['::ffff:10.0.0.5'],
  'nothing.example.com': [],
  localhost: ['127.0.0.1'],
  'localhost.': ['127.0.0.1'],
  'metadata.google.internal': ['169.254.169.254'],
}

async function check(
  url: string,
  { allow = [], ports = [], base }: { allow?: string[]; ports?: number[]; base?: string } = {},
) {
  const asked: string[] = []
  const resolve = async (host: string) => {
    asked.push(host)
    return HOSTS[host] ?? Promise.reject(new Error('ENOTFOUND'))
  }
  const gateway = await testGateway({
    resolve,
    config: { security: { allow_private_urls: allow, allow_url_ports: ports } },
  })
  try {
    return { ...(await checkUntrustedUrl(gateway, url, 'messages.0', base)), asked }
  } finally {
    await gateway.close()
  }
}

async function refusal(url: string, options: Parameters<typeof check>[1] = {}): Promise<string> {
  const failure = await check(url, options).then(
    () => expect.unreachable('It was not refused'),
    thrown => thrown,
  )
  expect(failure).toBeInstanceOf(GatewayError)
  expect(failure).toMatchObject({ type: 'invalid_request', metadata: { field: 'messages.0' } })
  return (failure as GatewayError).message
}

describe('X-23 isPublicAddress', () => {
  test.each([
    ...[
      '1.1.1.1',
      '8.8.8.8',
      '93.184.215.14',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.255.255',
      '100.128.0.0',
      '126.255.255.255',
    ],
    ...[
      '128.0.0.0',
      '168.63.129.15',
      '168.63.129.17',
      '169.253.255.255',
      '169.255.0.0',
      '172.15.255.255',
      '172.32.0.0',
      '192.0.1.0',
    ],
    ...['192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255'],
    ...[
      '2606:4700:4700::1111',
      '2001:200::1',
      '2001:4860:4860::8888',
      '2a00::',
      '3ffe::1',
      '3fff:1000::1',
      '2000::',
      '2003::1',
    ],
  ])('accepts %s', address => {
    expect(isPublicAddress(address)).toBe(true)
  })

  test.each([
    ...[
      '0.0.0.0',
      '0.1.2.3',
      '10.0.0.0',
      '10.255.255.255',
      '100.64.0.0',
      '100.127.255.255',
      '100.100.100.200',
      '127.0.0.1',
      '127.255.255.255',
    ],
    ...[
      '168.63.129.16',
      '169.254.169.254',
      '169.254.0.0',
      '172.16.0.0',
      '172.31.255.255',
      '192.0.0.192',
      '192.0.2.1',
      '192.88.99.1',
    ],
    ...[
      '192.168.0.0',
      '192.168.255.255',
      '198.18.0.0',
      '198.19.255.255',
      '198.51.100.7',
      '203.0.113.7',
      '224.0.0.1',
      '239.255.255.255',
    ],
    ...['240.0.0.1', '255.255.255.255'],
    ...[
      '::',
      '::1',
      '::127.0.0.1',
      '::7f00:1',
      '::ffff:127.0.0.1',
      '::ffff:8.8.8.8',
      '::ffff:7f00:1',
      '::ffff:0:7f00:1',
    ],
    ...[
      '64:ff9b::7f00:1',
      '64:ff9b::808:808',
      '64:ff9b:1::1',
      '100::1',
      '2001::1',
      '2001:0:4136:e378::',
      '2001:2::1',
      '2001:10::1',
      '2001:20::1',
    ],
    ...[
      '2001:1ff::1',
      '2001:db8::1',
      '2002:7f00:1::',
      '2002::1',
      '3fff::1',
      '3fff:fff::1',
      '4000::1',
      '5f00::1',
      'fc00::1',
      'fd00:ec2::254',
    ],
    ...['fe80::1', 'fe80::1%eth0', 'febf::1', 'fec0::1', 'ff02::1', 'ffff::1'],
    ...[
      '',
      'localhost',
      '1.2.3',
      '127.1',
      '2130706433',
      '0x7f.0.0.1',
      '010.0.0.1',
      '0177.0.0.1',
      '256.1.1.1',
      '1.1.1.1.',
      '1.1.1.1.1',
      ' 1.1.1.1',
    ],
    ...[':', ':::', '2606:4700::g', '2606:4700::1%eth0', '[2606:4700::1]', '2606:4700::1.2.3.4'],
  ])('refuses %p', address => {
    expect(isPublicAddress(address)).toBe(false)
  })
})

describe('X-23 X-26 checkUntrustedUrl', () => {
  test('returns the address to connect to, and resolves the host once', async () => {
    expect(await check('https://example.com/a.png?b#c')).toEqual({
      url: 'https://example.com/a.png?b#c',
      address: '93.184.215.14',
      asked: ['example.com'],
    })
    expect(await check('HTTP://six.EXAMPLE.com:443')).toMatchObject({
      url: 'http://six.example.com:443/',
      address: '2606:2800:21f:cb07:6820:80da:af6b:8b2c',
    })
  })

  test('does not resolve an address', async () => {
    expect(await check('http://1.1.1.1/')).toEqual({
      url: 'http://1.1.1.1/',
      address: '1.1.1.1',
      asked: [],
    })
    expect(await check('http://[2606:4700:4700::1111]/')).toMatchObject({
      address: '2606:4700:4700::1111',
      asked: [],
    })
  })

  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://2130706433/',
    'http://017700000001/',
    'http://0177.0.0.1/',
    'http://0x7f000001/',
    'http://0x7f.0.0.1/',
    'http://①②⑦.⓪.⓪.①/',
    'http://127。0。0。1/',
    'http://127.0.0.1./',
    'http://%31%32%37.0.0.1/',
    'http://0/',
    'http://[::1]/',
    'http://[::]/',
    'http://[::127.0.0.1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[0:0:0:0:0:ffff:127.0.0.1]/',
    'http://[64:ff9b::127.0.0.1]/',
    'http://[2002:7f00:1::]/',
    'http://[fd00:ec2::254]/',
    'http://169.254.169.254/latest/meta-data/',
    'http://metadata.google.internal/',
    'http://localhost/',
    'http://LOCALHOST/',
    'http://localhost./',
    'http://inside.example.com/',
    'http://both.example.com/',
    'http://mapped.example.com/',
    'http://127.0.0.1\\@example.com/',
    'http:/\\127.0.0.1/',
    '\thttp://127.0.0\n.1/',
  ])('X-24 refuses %j, which is private', async url => {
    expect(await refusal(url)).toBe('messages.0: expected the URL of a public host')
  })

  test('gives the same error for a host that does not exist', async () => {
    expect(await refusal('http://nothing.example.com/')).toBe(
      'messages.0: expected the URL of a public host',
    )
    expect(await refusal('http://unknown.example.com/')).toBe(
      'messages.0: expected the URL of a public host',
    )
  })

  test.each([
    'ftp://example.com/',
    'file:///etc/passwd',
    'data:,x',
    'javascript:1',
    'sandbox:/x',
    'gopher://example.com',
    '/a',
    '',
    'http://',
  ])('refuses %j, which is no http or https URL', async url => {
    expect(await refusal(url)).toBe('messages.0: expected an http or https URL')
  })

  test('refuses a URL that is too long', async () => {
    expect(await refusal(`http://example.com/${'x'.repeat(8192)}`)).toBe(
      'messages.0: expected an http or https URL',
    )
  })

  test.each([
    'http://user@example.com/',
    'http://user:word@example.com/',
    'http://:word@example.com/',
    'http://127.0.0.1%2f@example.com/',
  ])('X-24 refuses %j, which holds credentials', async url => {
    expect(await refusal(url)).toBe('messages.0: expected a URL without credentials')
  })

  test('allows only private hosts that the operator lists, by name or with the port', async () => {
    expect(await check('http://127.0.0.1/', { allow: ['127.0.0.1'] })).toMatchObject({
      address: '127.0.0.1',
    })
    expect(await check('http://[::1]:8080/', { allow: ['[::1]:8080'] })).toMatchObject({
      address: '::1',
    })
    expect(
      await check('http://inside.example.com/', { allow: ['Inside.Example.com'] }),
    ).toMatchObject({ address: '10.0.0.5' })
    for (const allow of ['127.0.0.1:8080', '127.0.0.1'])
      expect(await refusal('http://127.0.0.1:8081/', { allow: [allow] })).toContain(
        'port 80 or 443',
      )
    expect(await refusal('http://127.0.0.1/', { allow: ['127.0.0.1:8080'] })).toContain(
      'public host',
    )
    expect(
      await refusal('http://inside.example.com/', { allow: ['example.com', '10.0.0.5', 'inside'] }),
    ).toContain('public host')
  })

  test.each([0, 1, 22, 25, 79, 81, 442, 444, 2375, 3306, 5432, 6379, 8080, 8443, 9200, 65_535])(
    'does not call port %i, at any host, unless the operator allows it',
    async port => {
      for (const host of ['example.com', '1.1.1.1', '[2606:4700:4700::1111]'])
        for (const scheme of ['http', 'https'])
          expect(await refusal(`${scheme}://${host}:${port}/`)).toBe(
            'messages.0: expected a URL at port 80 or 443',
          )
      const base = 'https://example.com/a'
      expect(await refusal(`//example.com:${port}/b`, { base })).toContain('port 80 or 443')
      const ports = port === 0 ? [] : [port]
      for (const allowed of ports)
        expect((await check(`http://example.com:${allowed}/`, { ports: [allowed] })).address).toBe(
          '93.184.215.14',
        )
      expect(await refusal('http://inside.example.com/', { ports })).toContain('public host')
    },
  )

  test('calls the ports of the web with either scheme', async () => {
    for (const url of ['http://example.com:443/', 'https://example.com:80/'])
      expect((await check(url)).url).toBe(url)
  })

  test('a redirect is resolved against its source and checked in the same way', async () => {
    expect(await check('../b', { base: 'https://example.com/a/c' })).toMatchObject({
      url: 'https://example.com/b',
    })
    expect(await check('//six.example.com/b', { base: 'https://example.com/a' })).toMatchObject({
      url: 'https://six.example.com/b',
    })
    expect(await refusal('//localhost/', { base: 'https://example.com/a' })).toContain(
      'public host',
    )
    expect(await refusal('file:///etc/passwd', { base: 'https://example.com/a' })).toContain(
      'http or https',
    )
  })
})
