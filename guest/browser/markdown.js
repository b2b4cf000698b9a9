// SPDX-License-Identifier: Apache-2.0
// A page as Markdown, for reading: its main part, without navigation, controls and what is hidden.
//
// Evaluated before page.js, which calls it with its own functions for nodes and texts.
globalThis.cayMarkdown = ({ clean, HIDDEN, MAX_TEXT, MAX_NODES, tagOf, kindOf, attributeOf, shadowOf, childrenOf, findIn, isShown }) => {
  const NOT_READ = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|NAV|FOOTER|ASIDE|BUTTON|INPUT|SELECT|TEXTAREA|SVG|CANVAS|VIDEO|AUDIO|IFRAME|OBJECT|DIALOG)$/i;
  const BLOCKS = new RegExp('^(ADDRESS|ARTICLE|BLOCKQUOTE|BODY|DD|DETAILS|DIV|DL|DT|FIGCAPTION|FIGURE|FORM|H[1-6]|HEADER|HR|LI|MAIN|OL|P|PRE|SECTION|' +
    'SUMMARY|TABLE|TBODY|TD|TH|TR|UL)$');
  const MAX_DEPTH = 200, MAX_ROWS = 2000, MAX_CELLS = 200;
  const lengthOf = e => (e?.innerText || '').length;
  const mainPart = () => {
    const parts = [...document.querySelectorAll('main, [role=main], article')].slice(0, 200).map(e => [lengthOf(e), e]).sort((a, b) => b[0] - a[0]);
    return parts.length && parts[0][0] * 4 >= lengthOf(document.body) ? parts[0][1] : document.body;
  };
  const visibleText = text => text.replace(HIDDEN, c => c === '\n' || c === '\t' ? c : ' ');

  class Markdown {
    nodes = 0;

    skips(e, depth) {
      return depth > MAX_DEPTH || this.nodes++ > MAX_NODES || NOT_READ.test(tagOf(e)) || attributeOf(e, 'aria-hidden') === 'true' ||
        !isShown(e) && getComputedStyle(e).display !== 'contents'; // which has no box, and may hold what has one
    }

    children(e) {
      const given = tagOf(e) === 'SLOT' ? e.assignedNodes() : [];
      return given.length ? given : childrenOf(shadowOf(e) || e);
    }

    inline(e, depth) {
      let text = '';
      for (const c of this.children(e))
        text += this.inlineNode(c, depth + 1);
      return text;
    }

    inlineNode(c, depth) {
      if (kindOf(c) === 3)
        return visibleText(c.data).replace(/\s+/g, ' ');
      if (kindOf(c) !== 1 || this.skips(c, depth))
        return '';
      const tag = tagOf(c);
      if (tag === 'BR')
        return '\n';
      if (tag === 'IMG')
        return c.alt ? `![${clean(c.alt, MAX_TEXT)}]${this.address(c.src)}` : '';
      const text = this.inline(c, depth), words = text.trim();
      const around = (left, right = left) => words ? text.replace(words, () => left + words + right) : text;
      if (tag === 'A')
        return this.address(c.href) ? around('[', `]${this.address(c.href)}`) : text;
      if (/^(CODE|KBD|SAMP|TT)$/.test(tag))
        return around(words.includes('`') ? '`` ' : '`', words.includes('`') ? ' ``' : '`');
      if (/^(B|STRONG)$/.test(tag))
        return around('**');
      if (/^(I|EM)$/.test(tag))
        return around('*');
      return BLOCKS.test(tag) ? ` ${text} ` : text;
    }

    address(url) {
      return /^(https?|mailto):/.test(url) ? `(${url.slice(0, 2000).replace(/[()\s]/g, encodeURIComponent).replace(/[()]/g, c => c === '(' ? '%28' : '%29').toWellFormed()})` : '';
    }

    // What a block holds: paragraphs, lists and so on, as texts of lines.
    blocks(e, depth) {
      const out = [];
      let line = '';
      const flush = () => {
        const text = line.split('\n').map(l => l.replace(/ +/g, ' ').trim()).join('\n').trim();
        if (text)
          out.push(text);
        line = '';
      };
      for (const c of this.children(e)) {
        if (kindOf(c) !== 1 || !BLOCKS.test(tagOf(c)) && !this.holdsBlocks(c)) {
          line += this.inlineNode(c, depth + 1);
          continue;
        }
        flush();
        if (!this.skips(c, depth + 1))
          out.push(...this.block(c, depth + 1));
      }
      flush();
      return out;
    }

    holdsBlocks(e) {
      return !/^(A|SPAN|B|I|EM|STRONG|CODE|LABEL|IMG|BR)$/.test(tagOf(e)) || !!findIn(e, 'p, div, ul, ol, table, pre, h1, h2, h3, h4, h5, h6') || !!shadowOf(e);
    }

    block(e, depth) {
      const tag = tagOf(e);
      if (/^H[1-6]$/.test(tag)) {
        const text = this.inline(e, depth).replace(/\s+/g, ' ').trim();
        return text ? [`${'#'.repeat(Number(tag[1]))} ${text}`] : [];
      }
      if (tag === 'HR')
        return ['---'];
      if (tag === 'PRE') {
        const text = visibleText(e.textContent).replace(/\n+$/, '');
        const fence = '`'.repeat((text.match(/`{3,}/g) || []).reduce((n, run) => Math.max(n, run.length + 1), 3));
        return [`${fence}\n${text}\n${fence}`];
      }
      if (tag === 'BLOCKQUOTE') {
        const text = this.blocks(e, depth).join('\n\n');
        return text ? [text.replace(/^.*$/gm, line => line ? `> ${line}` : '>')] : [];
      }
      if (tag === 'UL' || tag === 'OL')
        return this.list(e, tag === 'OL', depth);
      if (tag === 'TABLE' && !findIn(e, 'table, ul, ol, pre, p'))
        return this.table(e, depth);
      return this.blocks(e, depth);
    }

    list(e, ordered, depth) {
      const items = [];
      let n = Number.isInteger(e.start) ? e.start : 1;
      for (const c of this.children(e)) {
        if (kindOf(c) !== 1 || this.skips(c, depth + 1))
          continue;
        const mark = ordered ? `${n++}. ` : '- ', text = this.blocks(c, depth + 1).join('\n');
        if (text)
          items.push(mark + text.replace(/\n/g, '\n' + ' '.repeat(mark.length)));
      }
      return items.length ? [items.join('\n')] : [];
    }

    table(e, depth) {
      const rows = [...e.querySelectorAll('tr')].slice(0, MAX_ROWS).filter(r => !this.skips(r, depth)).map(r =>
        [...r.children].slice(0, MAX_CELLS).map(c => this.inline(c, depth + 1).replace(/\s+/g, ' ').trim().replaceAll('|', '\\|')));
      const width = Math.max(0, ...rows.map(r => r.length));
      if (!width)
        return [];
      const line = cells => `| ${Array.from({ length: width }, (_, i) => cells[i] || '').join(' | ')} |`;
      return [[line(rows[0]), `|${' --- |'.repeat(width)}`, ...rows.slice(1).map(line)].join('\n')];
    }
  }

  // Of an element, or of the main part of the page.
  return element => {
    const e = element || mainPart();
    return e ? new Markdown().blocks(e, 0).join('\n\n').toWellFormed() : '';
  };
};
