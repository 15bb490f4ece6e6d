import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf } from '../base/schema-builders.ts'

const ADDRESS =
  "[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\\.[A-Za-z0-9-]{1,63}){0,8}"

/** An address of e-mail, without a name. No line break ends it. */
export const MailAddress = Type.String({
  pattern: `^${ADDRESS}$`,
  title: 'an address such as ada@example.com',
  maxLength: 254,
})

/** The server that sends mail. */
export const MailConfig = Type.Object(
  {
    host: Type.String({
      pattern: '^[A-Za-z0-9.:-]{1,253}$',
      title: 'a host',
      description: 'The host of an SMTP server; it may be in a private network',
    }),
    port: Type.Integer({ default: 587, minimum: 1, maximum: 65_535, description: 'Its port' }),
    security: {
      ...oneOf('starttls', 'tls', 'none'),
      default: 'starttls',
      description:
        'starttls: encrypted from its first word on, or not at all; tls: from the first byte on, ' +
        'as at port 465; none: never, for a server on this machine',
    },
    user: Type.Optional(
      Type.String({ pattern: '^[^\\u0000-\\u001f\\u007f]{1,320}$', description: 'Its user' }),
    ),
    password: Type.Optional(
      Type.String({
        pattern: '^[^\\u0000-\\u001f\\u007f]{1,1024}$',
        description: 'The password of that user',
      }),
    ),
    from: Type.String({
      pattern: `^(${ADDRESS}|[^<>"\\u0000-\\u001f\\u007f]{1,100} <${ADDRESS}>)$`,
      title: 'an address, or a name and an address in angle brackets',
      description: 'Whom mail is from: alerts@example.com, or Gateway <alerts@example.com>',
    }),
  },
  { ...closed, description: 'Sends alerts by mail' },
)
export type MailConfig = Static<typeof MailConfig>
