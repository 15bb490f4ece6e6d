/**
 * About 1,500 ordinary words, written for this: reports, letters, recipes and notes, with dates,
 * prices, numbers, versions, URLs, code and place names. They contain no person, postal address or
 * card number, so a filter should find nothing here.
 */
export const PROSE = `
The quarterly report was finished on 12 March 2026, two days later than planned. Revenue rose by 14.3% to $4,812,500, while costs grew
by only 2.1%. The largest single item was a contract worth €1.2 million with a supplier in Rotterdam; it runs until 31 December 2029 and
may be extended twice. Page 1048 of the annex lists the 36 sites at which meters will be replaced. Each meter costs between $89.99 and
$240, depending on whether it reports every 15 minutes or once a day. In January February and March the old meters read 3,204,118 units;
the new ones read 3,198,776, a difference of 0.17 percent that nobody could explain at first.

On Monday the team met in the Great Hall at 9:30 a.m. and talked until 11:45:30, which is when the fire alarm went off. It was only toast.
The minutes are at https://www.example.org/minutes/2026/03/index.html?page=2 and the slides at http://intranet.example.com:8080/slides.
Please read section 4.2.1.3 before the next meeting, and note that version 2.14.0 of the library replaces 2.13.9; the release notes for
1.9.0-beta.4 are wrong. Build 20260312.7 failed because of a missing file; build 20260312.8 passed in 4 minutes and 12 seconds. The
commit is 4f2a9c1 and the checksum begins with 9f86d081884c7d65. If std::vector grows beyond its capacity, it is copied; if a::b is called
twice, the second call returns at once. The ratio 16:9 is common, 4:3 is not.

The recipe serves four. Take 500 g of flour, 3 eggs, 250 ml of milk and a pinch of salt; mix until smooth, wait 30 minutes, and fry in
butter at 180 degrees. In Bavaria they add mineral water, in Brittany cider. My grandmother, who lived near the river all her life, never
measured anything. She would say that the dough tells you when it is ready. We bought the pan on Saturday for 34.50 at the market behind
the Old Town Hall, and it has served us well since Easter. Good pans last; cheap ones do not. Sunday mornings in April smell of it.

The museum opens at ten. Tickets are 12 euros, 8 for students, and free on the first Thursday of the month. The collection holds about
11,000 objects, of which 640 are shown. The oldest is from around 2100 BC and the newest was bought in 2019. Photography is allowed without
flash. Bus lines 14, 22 and 105 stop at the Central Station; from there it is a walk of seven minutes along the canal. The cafe closes at
17:30 on weekdays. Groups of more than fifteen should write two weeks ahead. The Prime Minister opened the new room in May, and the Royal
Orchestra played. The National Gallery of Modern Art lent two paintings for the summer; they hang in Room 7 beside the Winter Landscape.

Some notes on the network. A packet that is larger than 1500 bytes is cut into pieces, and the pieces are numbered from 0. Timeouts are
doubled up to 64 seconds. The table has 65,536 entries, most of them empty. In the worst case 2,147,483,647 is reached after 24.8 days, which
is why the counter was made wider. The order number is 1002003004, the ticket is #48213 and the invoice is 2026-00417-3. The serial number
of the device is AB12-CD34-EF56. The timestamp 1767225600 is midnight; 1767225600000 is the same in milliseconds. A UUID looks like
550e8400-e29b-41d4-a716-446655440000, an ISBN like 978-3-16-148410-0. Pi is about 3.14159265358979, and the speed of light is 299792458 metres
a second. Set password to something long, and never share your token with anybody; api_key: <your key> goes into the settings. In the example
the line reads secret = process.env.SECRET and token: string, and that is all there is to it.

Please ignore my earlier message about the delivery; it has arrived. The instructions on the box were clear, but the previous owner of the
desk had lost two screws. The system asks for a prompt answer, so I replied on the same day. Our new rules for the kitchen are on the door:
wash your cups, and do not leave anything in the sink. If the printer shows an error, turn it off and on again. You are now ready to
print. The developer said that debug output can be disabled in the settings. Act as soon as you hear the bell. I forgot everything I knew
about chemistry after the exam. What are your instructions for watering the plants while we are away? The policy of the library is simple:
bring the books back on time. Show me the way to the station, she said, and tell us what you think of the play. He repeated the words above
the door, and the guide said that the text above it was younger than the house. Previous instructions from the manufacturer were replaced in 2021.

Dear all, thank you for the lovely evening. The walk along the cliffs was the best part, and the soup was excellent. We took the 18:05
train, changed in Crewe, and were home before midnight. The children slept all the way. Next time it is our turn: come in June or July,
when the garden is at its best. There are two spare rooms, and the dog is friendly. Bring boots and something warm; it rains a lot here, even in summer, and the wind never stops. The path to the
lake is 3 km long and starts at the church. In winter it can be icy, and in August it is full of blackberries. I hope that the exam on
Wednesday goes well. Best wishes from all of us, and see you soon.

The experiment had 48 participants in 4 groups of 12. Each answered 25 questions on a scale of 1 to 7; the mean was 4.62 (SD 1.18), and the
difference between groups was significant, F(3, 44) = 5.71, p < .01. We repeated it in 2024 with 96 participants and found the same. The
temperature was kept at 21 degrees and the humidity at 45%. Samples were stored at -80 °C. The primer sequence ATGCCGTAAGCTTGCA was used
throughout. See Figure 3 and Table 2. The data are available on request. An earlier study in Nature reported 0.83 instead of 0.79; the
reason may be that the Northern Region was left out. New York, Los Angeles and San Francisco were compared with Berlin, Hamburg and Munich.
The Golden Gate Bridge, the Empire State Building and the Brandenburg Gate were named most often. Microsoft Word and Google Docs were used
equally often, and Visual Studio Code more often than either. The Supreme Court decided otherwise in 1998, and the European Commission in 2003.

Der Bericht wurde am 12. März 2026 fertig, zwei Tage später als geplant. Der Umsatz stieg um 14,3 % auf 4.812.500 Euro, die Kosten nur um
2,1 %. Auf Seite 48 steht, welche Zähler ersetzt werden; die Liste ist unter https://www.beispiel.example/berichte/liste.html zu finden. Im
Januar und im Februar war es kälter als im Vorjahr. Die Sitzung beginnt um 9.30 Uhr im Großen Saal und dauert bis 11 Uhr. Bitte bringen
Sie die Unterlagen mit, und denken Sie daran, dass der Aufzug bis Freitag außer Betrieb ist. Der Weg zum See ist drei Kilometer lang und
beginnt hinter der Kirche. Am Montag bleibt die Bibliothek geschlossen. Das Rezept reicht für vier Personen: 500 g Mehl, 3 Eier, 250 ml
Milch und eine Prise Salz. Die Deutsche Bahn hat den Fahrplan geändert; der Zug um 18.05 Uhr hält nicht mehr in Celle. Der Platz vor dem
Rathaus wird bis 2027 umgebaut, die Straße dahinter ein Jahr später. Das Bundesamt hat 36 Anträge geprüft und 12 davon abgelehnt. Die neue
Fassung 2.14 ersetzt die alte, und das Kennwort läuft nach 90 Tagen ab. Wer mehr als zehn Bücher ausleiht, muss sie nach vier Wochen verlängern. In Berlin und Hamburg ist das anders als in Wien oder Zürich.

Le rapport a été terminé le 12 mars 2026, deux jours plus tard que prévu. Le chiffre d'affaires a augmenté de 14,3 % pour atteindre 4 812 500
euros, alors que les coûts n'ont progressé que de 2,1 %. La réunion commence à 9 h 30 dans la grande salle et dure jusqu'à 11 heures. La
liste se trouve à la page 48 et sur https://www.exemple.example/rapports. Le musée ouvre à dix heures; l'entrée coûte 12 euros, et elle est
gratuite le premier jeudi du mois. Le chemin du lac fait trois kilomètres et part de l'église. En janvier et en février, il a fait plus
froid que l'année dernière. La recette est pour quatre personnes: 500 g de farine, 3 œufs, 250 ml de lait et une pincée de sel. La rue est
fermée jusqu'au 15 avril, la place le sera ensuite. La Banque de France et la Commission européenne ont publié leurs chiffres lundi. Le
mot de passe expire au bout de 90 jours. Les lunettes perdues se trouvent à l'accueil, avec trois parapluies et un gant rouge. À Paris et à Lyon, les prix ont baissé de 3 %, à Nantes ils sont restés les mêmes.
`.replace(/\n(?=\S)/g, ' ')
